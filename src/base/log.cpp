#include "base/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <chrono>
#include <memory>
#include <string>

namespace weir {
namespace {

// Lines that may wait for a slow terminal before the oldest are dropped: a stuck pipe must not stop the engine.
constexpr std::size_t kQueueLines = 8192;

}  // namespace

Status init_log(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    return fail_at("log-level", ErrorCode::kInvalidArgument,
                   "log level '{}' is unknown; use one of trace, debug, info, warning, error, off", level);
  }
  spdlog::init_thread_pool(kQueueLines, 1);
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::async_logger>("weir", sink, spdlog::thread_pool(),
                                                       spdlog::async_overflow_policy::overrun_oldest);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
  spdlog::flush_every(std::chrono::seconds(1));
  return {};
}

void shutdown_log() {
  spdlog::shutdown();
}

}  // namespace weir
