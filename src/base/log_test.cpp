#include "base/log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <sstream>

namespace weir {
namespace {

TEST(Log, a_line_stays_one_line_whatever_it_quotes) {
  std::ostringstream out;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_formatter(make_log_formatter());
  logger.info("GET {} 401", "/x\nFORGED\x1b[31m");
  const std::string line = out.str();
  EXPECT_TRUE(line.ends_with(" info GET /x\\nFORGED\\x1b[31m 401\n")) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
}

}  // namespace
}  // namespace weir
