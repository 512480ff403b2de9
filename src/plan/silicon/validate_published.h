// `weir plan validate published`: single points that others published.
#pragma once

#include "base/result.h"
#include "plan/report.h"

namespace weir::plan {

// The curated anchors of silicon_refs.csv, predicted by fits without any row of their configurations, and DeepSeek's
// production figures with every assumption listed.
Result<Report> validate_published();

}  // namespace weir::plan
