// What `weir plan calibrate` and `weir plan validate live` share: a server of this program under a load whose steps are
// known, and what can be learned from them.
#pragma once

#include <string>
#include <vector>

#include "apps/step_log.h"
#include "base/result.h"
#include "driver/driver.h"
#include "load/model_spec.h"
#include "plan/calibrated_step.h"

namespace weir::apps {

inline constexpr int kLiveBlockTokens = 16;  // the server's default

// What a load needs to know of a model: which ids its prompts may use, what its KV pool is like.
struct LiveModel {
  std::string path, name;
  load::ModelSpec spec;
  TokenId vocab = 0;
  std::int64_t context = 0;
  std::vector<int> windows;      // of the KV groups
  std::int64_t block_bytes = 0;  // of one KV block, with blocks of `block_tokens`
  int block_tokens = 16;
};
Result<LiveModel> read_live_model(const std::string& path, int block_tokens);

// A workload spec whose prompts are ids that are ordinary tokens in most vocabularies.
driver::WorkloadSpec load_of(const LiveModel& model, std::uint64_t seed);

// Runs it; fails if any request failed.
Result<driver::RunResult> run_load(const std::string& base_url, driver::WorkloadSpec spec, double limit_s = 0);

// A fixed load that takes about a second on a small machine: how fast the machine is now.
Result<double> reference_s(const std::string& base_url, const LiveModel& model, std::uint64_t seed);

// Steps as the simulator counts them: from one plan to the next where the engine was busy, else to the tokens and the
// usual rest of a turn.
std::vector<plan::StepSample> step_samples(const std::vector<LoggedStep>& steps);

struct CalibrateOptions {
  std::string model;
  int threads = 0;
  int max_rows = 512;   // --max-num-batched-tokens of the server
  double seconds = 45;  // of load, about
  std::uint64_t seed = 0;
  std::string keep_log;  // a file that gets the steps; empty: none
};
// Starts a server, puts loads on it and fits its steps.
Result<plan::CalibratedStep> calibrate(const CalibrateOptions& options);

}  // namespace weir::apps
