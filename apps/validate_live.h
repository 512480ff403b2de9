// `weir plan validate live`: scenarios of serving, each predicted and measured on this machine.
//
// A prediction knows what a planner may know: the calibrated step model, the settings of the server, when requests are
// sent and how long they are; and how fast the machine is around the run, from a reference load just before and just
// after it (a shared or virtual machine drifts by more than the errors in question). It knows nothing of the run
// itself.
#pragma once

#include <string>
#include <vector>

#include "apps/live_memory.h"
#include "base/result.h"
#include "plan/report.h"

namespace weir::apps {

struct ValidateLiveOptions {
  std::vector<std::string> models;
  std::vector<std::string> step_models;  // files, one for each model; empty: calibrated first
  double seconds = 14;                   // of each scenario's arrivals, about
  double calibration_s = 45;
  int threads = 0;
  int runs = 2;
  std::size_t most_servers = 0;  // settings tried of each model, in order; 0: all
  std::uint64_t seed = 1;
};

// The figures that are compared, of one run.
struct LiveFigures {
  double output_tok_s = 0, tpot_s = 0, e2e_s = 0, ttft_s = 0, ttft_p99_s = 0;
};

struct LiveScenario {
  std::string model, arrivals;
  bool cache = false;
  int chunk = 0;
  double load = 0, rate = 0;  // of the capacity; requests a second
  std::size_t requests = 0;
  std::vector<LiveFigures> measured, predicted;  // by run
  std::vector<double> slowdown, lag_p99_s;       // by run
};

// The table, and whether the targets are met.
plan::Report live_report(const std::vector<LiveScenario>& scenarios, const std::vector<LiveMemory>& memory,
                         const std::vector<plan::CalibratedStep>& steps);

Result<plan::Report> validate_live(const ValidateLiveOptions& options);

}  // namespace weir::apps
