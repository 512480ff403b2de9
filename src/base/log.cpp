#include "base/log.h"

#include <spdlog/async.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/printable.h"

namespace weir {
namespace {

// Lines that may wait for a slow terminal before the oldest are dropped: a stuck pipe must not stop the engine.
constexpr std::size_t kQueueLines = 8192;

class PrintablePayload final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = printable({line.payload.data(), line.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintablePayload>(); }
};

}  // namespace

std::unique_ptr<spdlog::formatter> make_log_formatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintablePayload>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %*");
  return formatter;
}

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
  logger->set_formatter(make_log_formatter());
  logger->set_level(parsed);
  spdlog::set_default_logger(std::move(logger));
  spdlog::flush_every(std::chrono::seconds(1));
  return {};
}

void shutdown_log() {
  spdlog::shutdown();
}

}  // namespace weir
