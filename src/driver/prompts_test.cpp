#include "driver/workload.h"

#include <gtest/gtest.h>

#include <sstream>

namespace weir::driver {
namespace {

TEST(Prompts, of_a_group_share_their_prefix_and_nothing_else) {
  WorkloadSpec spec;
  spec.requests = 50;
  spec.seed = 3;
  spec.prompt.median = 20;
  spec.prefix_groups = 2;
  spec.prefix_tokens = 30;
  const auto workload = *Workload::draw(spec);
  const auto prefix = [](const std::vector<TokenId>& p) { return std::vector(p.begin(), p.begin() + 30); };
  const auto own = [](const std::vector<TokenId>& p) { return std::vector(p.begin() + 30, p.end()); };
  int pairs = 0;
  for (std::size_t i = 0; i < 50; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto a = workload.prompt(i), b = workload.prompt(j);
      ASSERT_EQ(a.size(), 50u);
      const bool together = workload.requests()[i].group == workload.requests()[j].group;
      EXPECT_EQ(prefix(a) == prefix(b), together);
      EXPECT_NE(own(a), own(b));
      pairs += together;
    }
  }
  EXPECT_GT(pairs, 0);
}

TEST(Prompts, of_another_seed_or_text_seed_are_others) {
  WorkloadSpec spec;
  spec.requests = 1;
  const auto of = [](WorkloadSpec s) { return Workload::draw(std::move(s))->prompt(0); };
  WorkloadSpec seed = spec, text = spec;
  seed.seed = 1;
  text.text_seed = 1;
  EXPECT_EQ(of(spec), of(spec));
  EXPECT_NE(of(spec), of(seed));
  EXPECT_NE(of(spec), of(text));
  EXPECT_EQ(Workload::draw(text)->requests()[0].own_tokens, Workload::draw(spec)->requests()[0].own_tokens);
}

TEST(Prompts, of_a_trace_share_text_where_they_share_block_names) {
  std::istringstream lines(
      "{\"timestamp\":0,\"input_length\":1100,\"output_length\":3,\"hash_ids\":[4,9,1]}\n"
      "{\"timestamp\":1,\"input_length\":1100,\"output_length\":0,\"hash_ids\":[4,8,2]}\n");
  const auto trace = traffic::parse_trace(lines, "trace");
  ASSERT_TRUE(trace);
  WorkloadSpec spec;
  spec.requests = 2;
  spec.arrivals = *traffic::parse_arrivals("trace:2");
  spec.prompt = spec.output = *traffic::parse_lengths("input-len", "trace");
  spec.trace = *trace;
  const auto workload = *Workload::draw(spec);
  const auto a = workload.prompt(0), b = workload.prompt(1);
  ASSERT_EQ(a.size(), 1100u);
  EXPECT_EQ(std::vector(a.begin(), a.begin() + 512), std::vector(b.begin(), b.begin() + 512));
  EXPECT_NE(a[512], b[512]);
  EXPECT_DOUBLE_EQ(workload.requests()[1].at_s, 0.0005);
  EXPECT_EQ(workload.requests()[1].output_tokens, 1);  // no server takes none
  spec.requests = 3;
  EXPECT_FALSE(Workload::draw(spec));  // more than the trace has
}

TEST(Workload, of_what_the_driver_cannot_do_is_refused) {
  WorkloadSpec spec;
  spec.arrivals = *traffic::parse_arrivals("closed:2:0.5");
  EXPECT_EQ(Workload::draw(spec).error().code, ErrorCode::kUnsupported);
  std::istringstream lengths("num_prefill_tokens,num_decode_tokens\n5,6\n");
  spec.trace = *traffic::parse_trace(lengths, "lengths");
  spec.requests = 1;
  spec.arrivals = *traffic::parse_arrivals("trace");
  EXPECT_EQ(Workload::draw(spec).error().param, "arrivals");
  spec.arrivals = *traffic::parse_arrivals("poisson:3");
  spec.prompt = spec.output = *traffic::parse_lengths("input-len", "trace");
  EXPECT_EQ(Workload::draw(spec)->requests()[0].own_tokens, 5);
}

}  // namespace
}  // namespace weir::driver
