// `weir plan validate vllm`: measured runs of vLLM beside what their kernel profiles and arrivals predict.
//
// Nothing of a run's measured times goes into its own prediction. One constant is fitted at all, and never on the run
// it is used for: the load factor of a device (step_time.h), so that the mean TPOT of the built-in runs on the same
// device, this one excluded, is right; where there is none, of the others that were given; else 1. The report says
// which.
//
// Definitions, as LLMServingSim's summaries have them: TTFT from when the engine read the request to its first token;
// TPOT (last - first) / (output - 1), of requests with two tokens or more; E2E from the same start to the last token.
// Percentiles interpolate linearly between ranks.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/report.h"
#include "plan/vllm/replay.h"
#include "plan/vllm/run.h"

namespace weir::plan::vllm {

struct Statistics {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};
Statistics statistics(std::vector<double> values);  // all 0 of none

struct RunFigures {
  Statistics ttft_ms, tpot_ms, e2e_ms;
  double output_tokens_per_s = 0;  // from the first arrival to the last token
};
RunFigures figures(const Run& run, const std::vector<RequestTimes>& times);

struct LoadFactor {
  double value = 1;
  std::vector<std::string> fitted_on;  // names of runs; empty: not fitted
};
// Of `run`'s device, from those of `others` on the same device that are not the same run.
Result<LoadFactor> load_factor(const Run& run, const std::vector<Run>& others);

struct Validation {
  std::string name, device, model;
  std::size_t requests = 0;
  RunFigures measured, predicted;
  LoadFactor factor;
  std::int64_t steps = 0, preemptions = 0;
  std::map<std::string, double> published_errors;
};
Result<Validation> validate(const Run& run, const std::vector<Run>& others);

// `folder`: empty for the runs in the program.
Result<Report> validate_vllm(const std::string& folder);

}  // namespace weir::plan::vllm
