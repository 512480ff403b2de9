#include "traffic/trace.h"

#include <gtest/gtest.h>

#include <sstream>

namespace weir::traffic {
namespace {

Result<Trace> read(const std::string& text, std::size_t limit = 1000) {
  std::istringstream in(text);
  return parse_trace(in, "a trace", limit);
}

std::string error_of(const std::string& text) {
  const auto trace = read(text);
  return trace ? "no error" : trace.error().message;
}

TEST(Trace, ComesInOrderOfTimeFromTheFirst) {
  const auto trace = read(
      "{\"timestamp\": 5000, \"input_length\": 700, \"output_length\": 3, \"hash_ids\": [4, 9]}\r\n\n"
      "{\"timestamp\": 2000, \"input_length\": 20, \"output_length\": 0}\n");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->rows.size(), 2u);
  EXPECT_EQ(trace->rows[0].at_s, 0);
  EXPECT_EQ(trace->rows[1].at_s, 3);
  EXPECT_EQ(trace->rows[1].prompt_tokens, 700);
  const auto ids = trace->ids_of(trace->rows[1]);
  EXPECT_EQ(std::vector(ids.begin(), ids.end()), (std::vector<std::uint64_t>{4, 9}));
  EXPECT_EQ(read("TIMESTAMP,ContextTokens,GeneratedTokens\n1,1,1\n2,1,1\n3,1,1\n", 2)->rows.size(), 2u);
}

TEST(Trace, ReadsTables) {
  const auto trace = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29 23:59:59.5000000,10,2\n2024-03-01 00:00:01.2500000,20,3\n");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_NEAR(trace->rows[1].at_s, 1.75, 1e-4);
  const auto without = read("num_prefill_tokens,num_decode_tokens,pd_ratio\n12,3,4\n8,2.0,4\n");
  ASSERT_TRUE(without.has_value()) << without.error().message;
  EXPECT_EQ(without->rows[1].output_tokens, 2);
  EXPECT_FALSE(without->has_times);
}

// A file may have no line ends at all, nor an end.
TEST(Trace, LinesAreReadUpToALimit) {
  const std::string good = R"({"timestamp": 1, "input_length": 4, "output_length": 1})";
  const std::size_t most = std::size_t{4} << 20;
  const auto padded = [&](std::size_t bytes) { return good + std::string(bytes - good.size(), ' '); };
  EXPECT_EQ(read(padded(most) + "\n" + good)->rows.size(), 2U);
  EXPECT_EQ(read(good + "\n" + padded(most))->rows.size(), 2U);
  for (const std::size_t more : {most + 1, most + 2, 2 * most}) {
    EXPECT_NE(error_of(good + "\n" + padded(more)).find("line 2: it has more than"), std::string::npos) << more;
    EXPECT_NE(error_of(padded(more) + "\n" + good).find("line 1: it has more than"), std::string::npos) << more;
  }
  EXPECT_NE(error_of(good + "\n" + std::string(10, '\0')).find("line 2"), std::string::npos);
}

TEST(Trace, NamesLineAndField) {
  const std::string good = R"({"timestamp": 1, "input_length": 4, "output_length": 1})";
  const std::pair<std::string, std::string> cases[] = {
      {good + "\n{\"timestamp\": 1, \"output_length\": 1}", "line 2: the field 'input_length' is missing"},
      {good + "\n\n" + R"({"timestamp": "now", "input_length": 4, "output_length": 1})",
       "line 3: 'timestamp' is a text"},
      {R"({"timestamp": -1, "input_length": 4, "output_length": 1})", "'timestamp' is -1"},
      {R"({"timestamp": 1e99, "input_length": 4, "output_length": 1})", "'timestamp' is 1e+99"},
      {R"({"timestamp": 1, "input_length": 4.5, "output_length": 1})", "'input_length' is 4.5"},
      {R"({"timestamp": 1, "input_length": 400000000, "output_length": 1})", "'input_length' is"},
      {R"({"timestamp": 1, "input_length": 0, "output_length": 1})", "the prompt has 0 tokens"},
      {R"({"timestamp": 1, "input_length": 4, "output_length": 1, "hash_ids": [1, 2]})", "'hash_ids' has 2 ids"},
      {R"({"timestamp": 1, "input_length": 4, "output_length": 1, "hash_ids": ["a"]})", "'hash_ids'"},
      {R"({"timestamp": 1, "input_length": 4, "output_length": 1, "hash_ids": [[1]]})", "'hash_ids'"},
      {R"({"timestamp": 1, "input_length": 4)", "line 1: it is no JSON"},
      {good + "\n[1, 2]", "line 2"},
      {good + "\n3", "line 2: it is no JSON object"},
      {"a,b\n1,2\n", "line 1: expected JSON objects"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,10\n", "line 2: it has 2 fields"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,10,1\n", "line 2: TIMESTAMP is 'yesterday'"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,ten,1\n", "ContextTokens is 'ten'"},
      {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,10,-1\n", "GeneratedTokens is '-1'"},
      {"", "it has no requests"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(error_of(text).find(expected), std::string::npos) << text << "\n" << error_of(text);
  }
  EXPECT_FALSE(read_trace("/nowhere/at/all").has_value());
}

}  // namespace
}  // namespace weir::traffic
