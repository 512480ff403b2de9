// `weir plan step`: TTFT and TPOT of a deployment under constant concurrency, term by term, with 90 % intervals.
#pragma once

#include <string>

#include "base/result.h"
#include "plan/hardware.h"
#include "plan/model_card.h"
#include "plan/parallel_layout.h"
#include "plan/report.h"

namespace weir::plan {

struct StepQuestion {
  ModelCard card;
  Hardware hardware;
  ParallelLayout layout;
  WeightTypes types;
  double kv_bits = 16, input_tokens = 1024, output_tokens = 1024, concurrency = 16;
  std::string backend;
};

// Errors: as make_step_model's and check_fits'; kUnsupported for what is no GPU.
Result<Report> step_report(const StepQuestion& question);

}  // namespace weir::plan
