// `weir plan validate ops`: times of single operators on GPUs, at shapes that the fit has not seen.
#pragma once

#include "base/result.h"
#include "plan/report.h"

namespace weir::plan {

Result<Report> validate_ops();

}  // namespace weir::plan
