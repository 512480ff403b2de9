// The step log: one JSON line for each step of the engine, written by `weir serve --step-log FILE` and read by what
// fits and checks step times.
//
//   {"planned_s": 12.5, "produced_s": 12.53, "running": 3, "waiting": 0, "kv_blocks": 17,
//    "ranges": [[sequence, begin, end, samples], ...]}
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace weir::apps {

class StepLog {
 public:
  static Result<std::unique_ptr<StepLog>> create(const std::string& path);
  ~StepLog();

  void write(const engine::StepRecord& step);  // engine thread; buffered

 private:
  StepLog() = default;
  std::FILE* file_ = nullptr;
};

struct LoggedStep {
  double planned_s = 0, produced_s = 0;
  int running = 0, waiting = 0;
  std::uint32_t kv_blocks = 0;
  std::vector<sched::ScheduledRange> ranges;
};

Result<std::vector<LoggedStep>> read_step_log(const std::string& path);

}  // namespace weir::apps
