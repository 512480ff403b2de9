#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "driver/workload.h"

namespace weir::driver {
namespace {

class Trace : public ::testing::Test {
 protected:
  Result<std::vector<TraceRow>> read(const std::string& text, std::size_t limit = 100) {
    std::ofstream(path_, std::ios::binary) << text;
    return read_trace(path_, limit);
  }
  ~Trace() override { std::remove(path_.c_str()); }
  std::string path_ = ::testing::TempDir() + "driver_trace_test";
};

TEST_F(Trace, of_json_lines_has_its_times_lengths_and_blocks) {
  const auto rows = read(
      "{\"timestamp\": 5000, \"input_length\": 700, \"output_length\": 3, \"hash_ids\": [4, 9]}\r\n\n"
      "{\"timestamp\": 2000, \"input_length\": 20, \"output_length\": 0}\n");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].at_s, 0);  // in order of time, from the first
  EXPECT_EQ((*rows)[1].at_s, 3);
  EXPECT_EQ((*rows)[1].prompt_tokens, 700);
  EXPECT_EQ((*rows)[1].hash_ids, (std::vector<std::int64_t>{4, 9}));
  EXPECT_EQ((*rows)[0].output_tokens, 1);  // no server takes none
}

TEST_F(Trace, of_a_table_has_its_times_over_midnight) {
  const auto rows = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-28 23:59:59.5,4808,10\n2024-02-29 00:00:01.25,31,8\n"
      "2024-03-01 00:00:01.25,31,8\n");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_DOUBLE_EQ((*rows)[1].at_s, 1.75);
  EXPECT_DOUBLE_EQ((*rows)[2].at_s, 86401.75);
  EXPECT_EQ((*rows)[0].prompt_tokens, 4808);
}

TEST_F(Trace, prompts_share_text_where_they_share_block_names) {
  auto rows = read(
      "{\"timestamp\":0,\"input_length\":1100,\"output_length\":3,\"hash_ids\":[4,9,1]}\n"
      "{\"timestamp\":1,\"input_length\":1100,\"output_length\":3,\"hash_ids\":[4,8,2]}\n");
  ASSERT_TRUE(rows);
  WorkloadSpec spec;
  spec.requests = 2;
  spec.arrivals = *parse_arrivals("trace:2");
  spec.prompt = spec.output = *parse_lengths("input-len", "trace");
  spec.trace = *rows;
  const auto workload = *Workload::draw(spec);
  const auto a = workload.prompt(0), b = workload.prompt(1);
  ASSERT_EQ(a.size(), 1100u);
  EXPECT_EQ(std::vector(a.begin(), a.begin() + 512), std::vector(b.begin(), b.begin() + 512));
  EXPECT_NE(a[512], b[512]);
  EXPECT_DOUBLE_EQ(workload.requests()[1].at_s, 0.0005);
  spec.requests = 3;
  EXPECT_FALSE(Workload::draw(spec));  // more than the trace has
}

TEST_F(Trace, that_is_none_names_its_line) {
  for (const char* text :
       {"[]\n", "a,b\n1,2\n", "{\"timestamp\": 0}\n", "{\"timestamp\":-1,\"input_length\":1,\"output_length\":1}\n",
        "{\"timestamp\":0,\"input_length\":0,\"output_length\":1}\n",
        "{\"timestamp\":0,\"input_length\":1e11,\"output_length\":1}\n",
        "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[-1]}\n",
        "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":7}\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", "TIMESTAMP,ContextTokens,GeneratedTokens\n1,1\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n1,1,1x\n"}) {
    const auto rows = read(text);
    ASSERT_FALSE(rows) << text;
    EXPECT_NE(rows.error().message.find("line"), std::string::npos) << rows.error().message;
  }
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read_trace("/nowhere/at/all", 5));
}

}  // namespace
}  // namespace weir::driver
