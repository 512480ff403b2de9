// A model served under one setting: the arguments of its server, and the simulator's picture of that server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/live_load.h"
#include "base/result.h"
#include "plan/sim/simulator.h"

namespace weir::apps {

struct ServerSetting {
  bool cache = true;
  int chunk = 512;     // most tokens of a step
  int sequences = 32;  // most that run at once
};

class LiveSide {
 public:
  static constexpr std::int64_t kMaxModelLen = 2048;
  static constexpr std::int64_t kPoolBytes = 192 << 20;  // holds 32 and more sequences of some hundred tokens

  // `model` and `step` outlive it.
  LiveSide(const LiveModel& model, const plan::CalibratedStep& step, const ServerSetting& setting, int threads);

  std::vector<std::string> arguments() const;

  // What the server will do with such a load, on a machine that is so many times as slow as at calibration.
  Result<plan::sim::SimResult> predict(const driver::WorkloadSpec& spec, double slowdown) const;

  std::uint32_t blocks() const { return blocks_; }
  int threads() const { return threads_; }
  const ServerSetting& setting() const { return setting_; }
  const LiveModel& model() const { return model_; }
  const plan::CalibratedStep& step() const { return step_; }

 private:
  const LiveModel& model_;
  const plan::CalibratedStep& step_;
  const ServerSetting setting_;
  const int threads_;
  std::uint32_t blocks_ = 0;
};

}  // namespace weir::apps
