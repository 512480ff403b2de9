#include "apps/step_log.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace weir::apps {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::size_t kMaxLine = 8 << 20, kMaxSteps = 4 << 20;

Result<LoggedStep> read_line(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  LoggedStep step;
  const auto number = [&json](const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_number() ? json[key].get<double>() : -1.0;
  };
  step.planned_s = number("planned_s");
  step.produced_s = number("produced_s");
  step.running = static_cast<int>(number("running"));
  step.waiting = static_cast<int>(number("waiting"));
  step.kv_blocks = static_cast<std::uint32_t>(std::max(number("kv_blocks"), 0.0));
  const bool good =
      step.planned_s >= 0 && step.produced_s >= step.planned_s && json.contains("ranges") && json["ranges"].is_array();
  if (!good) return fail(ErrorCode::kCorruptFile, "it is no step: planned_s, produced_s and ranges are expected");
  for (const auto& range : json["ranges"]) {
    if (!range.is_array() || range.size() != 4 || !range[0].is_number_unsigned() || !range[1].is_number_unsigned() ||
        !range[2].is_number_unsigned() || !range[3].is_boolean() || range[1] >= range[2])
      return fail(ErrorCode::kCorruptFile, "a range is not [sequence, begin, end, samples]");
    step.ranges.push_back({SeqId{range[0].get<std::uint64_t>()}, range[1].get<std::int64_t>(),
                           range[2].get<std::int64_t>(), range[3].get<bool>()});
  }
  return step;
}

}  // namespace

Result<std::unique_ptr<StepLog>> StepLog::create(const std::string& path) {
  std::unique_ptr<StepLog> log(new StepLog);
  log->file_ = std::fopen(path.c_str(), "w");
  if (log->file_ == nullptr)
    return fail_at("step-log", ErrorCode::kInvalidArgument, "--step-log {}: {}", printable(path), std::strerror(errno));
  std::setvbuf(log->file_, nullptr, _IOFBF, kBufferBytes);
  return log;
}

StepLog::~StepLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void StepLog::write(const engine::StepRecord& step) {
  fmt::print(file_,
             "{{\"planned_s\":{:.6f},\"produced_s\":{:.6f},\"running\":{},\"waiting\":{},\"kv_blocks\":{},\"ranges\":[",
             step.planned_s, step.produced_s, step.running, step.waiting, step.kv_blocks_in_use);
  const char* separator = "";
  for (const sched::ScheduledRange& range : step.ranges) {
    fmt::print(file_, "{}[{},{},{},{}]", separator, value(range.id), range.begin, range.end, range.samples);
    separator = ",";
  }
  std::fputs("]}\n", file_);
}

Result<std::vector<LoggedStep>> read_step_log(const std::string& path) {
  std::ifstream in(path);
  if (!in) return fail(ErrorCode::kNotFound, "cannot read the step log {}", printable(path));
  std::vector<LoggedStep> steps;
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty()) continue;
    if (line.size() > kMaxLine || steps.size() >= kMaxSteps)
      return fail(ErrorCode::kTooLarge, "{}: more than {} steps or {} bytes a step", printable(path), kMaxSteps,
                  kMaxLine);
    auto step = read_line(line);
    if (!step)
      return fail(ErrorCode::kCorruptFile, "{}, step {}: {}", printable(path), steps.size() + 1, step.error().message);
    steps.push_back(std::move(*step));
  }
  return steps;
}

}  // namespace weir::apps
