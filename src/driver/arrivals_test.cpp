#include "driver/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>

#include "driver/workload.h"

namespace weir::driver {
namespace {

struct Moments {
  double mean = 0, cv = 0;
};
Moments gaps_of(const std::vector<double>& times) {
  Moments out;
  double before = 0, squares = 0;
  const auto n = static_cast<double>(times.size());
  for (const double at : times) {
    out.mean += (at - before) / n;
    squares += (at - before) * (at - before) / n;
    before = at;
  }
  out.cv = std::sqrt(squares - out.mean * out.mean) / out.mean;
  return out;
}

ArrivalSpec parsed(const char* text) {
  const auto spec = parse_arrivals(text);
  EXPECT_TRUE(spec) << text;
  return spec.value_or(ArrivalSpec());
}

// The mean of n gaps scatters by cv / sqrt(n); the bounds are five such deviations for n = 40,000.
TEST(Arrivals, gaps_have_the_mean_and_the_variation_asked_for) {
  for (const auto& [text, cv] :
       {std::pair("poisson:4", 1.0), std::pair("gamma:4:0.25", 0.25), std::pair("gamma:4:1", 1.0),
        std::pair("gamma:4:2.5", 2.5), std::pair("constant:4", 0.0)}) {
    const Moments m = gaps_of(draw_arrivals(parsed(text), 40'000, 7));
    EXPECT_NEAR(m.mean, 0.25, 0.25 * std::max(cv, 0.01) * 5 / 200) << text;
    EXPECT_NEAR(m.cv, cv, 0.05 * cv + 0.01) << text;
  }
}

TEST(Arrivals, bursts_come_together_at_the_rate_over_all) {
  const auto times = draw_arrivals(parsed("burst:8:4"), 12, 1);
  const std::vector<double> expected = {0, 0, 0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1};
  EXPECT_EQ(times, expected);
}

TEST(Arrivals, a_seed_gives_the_same_times_and_another_seed_others) {
  const ArrivalSpec spec = parsed("gamma:3:2");
  EXPECT_EQ(draw_arrivals(spec, 100, 5), draw_arrivals(spec, 100, 5));
  EXPECT_NE(draw_arrivals(spec, 100, 5), draw_arrivals(spec, 100, 6));
  // More requests do not move the ones before.
  auto more = draw_arrivals(spec, 200, 5);
  more.resize(100);
  EXPECT_EQ(more, draw_arrivals(spec, 100, 5));
}

TEST(Arrivals, what_is_no_arrival_process_is_refused) {
  for (const char* text : {"", "poisson", "poisson:", "poisson:0", "poisson:-1", "poisson:nan", "poisson:inf",
                           "poisson:1:2", "gamma:1", "gamma:1:0", "gamma:1:1e9", "burst:4:0", "closed:0", "closed:1:2",
                           "trace:0", "x:1", "poisson:1e", "at-once:3"}) {
    const auto spec = parse_arrivals(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Lengths, are_drawn_from_what_is_asked_for) {
  WorkloadSpec spec;
  spec.requests = 20'000;
  spec.prompt = *parse_lengths("input-len", "uniform:10:19");
  spec.output = *parse_lengths("output-len", "lognormal:100:0.5:20:400");
  const auto workload = Workload::draw(spec);
  ASSERT_TRUE(workload);
  std::vector<std::int64_t> outputs;
  double prompt_mean = 0;
  for (const auto& request : workload->requests()) {
    ASSERT_TRUE(request.own_tokens >= 10 && request.own_tokens <= 19);
    ASSERT_TRUE(request.output_tokens >= 20 && request.output_tokens <= 400);
    prompt_mean += static_cast<double>(request.own_tokens) / 20'000;
    outputs.push_back(request.output_tokens);
  }
  std::nth_element(outputs.begin(), outputs.begin() + 10'000, outputs.end());
  EXPECT_NEAR(prompt_mean, 14.5, 0.15);
  EXPECT_NEAR(static_cast<double>(outputs[10'000]), 100, 3);
}

TEST(Lengths, what_is_no_length_is_refused) {
  for (const char* text : {"", "0", "-4", "x", "uniform:5", "uniform:9:3", "uniform:0:3", "lognormal:5",
                           "lognormal:5:-1", "lognormal:5:1:9", "1e30", "nan"})
    EXPECT_FALSE(parse_lengths("input-len", text)) << text;
}

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

}  // namespace
}  // namespace weir::driver
