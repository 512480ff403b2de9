#include "traffic/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "traffic/lengths.h"

namespace weir::traffic {
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

Arrivals parsed(const char* text) {
  const auto spec = parse_arrivals(text);
  EXPECT_TRUE(spec) << text;
  return spec.value_or(Arrivals());
}

// The mean of n gaps scatters by cv / sqrt(n); the bounds are five such deviations for n = 40,000.
TEST(Arrivals, gaps_have_the_mean_and_the_variation_asked_for) {
  for (const auto& [text, cv] :
       {std::pair("poisson:4", 1.0), std::pair("gamma:4:0.25", 0.25), std::pair("gamma:4:1", 1.0),
        std::pair("gamma:4:2.5", 2.5), std::pair("constant:4", 0.0)}) {
    const Moments m = gaps_of(draw_arrivals(parsed(text), 40'000, Random(7, 1)));
    EXPECT_NEAR(m.mean, 0.25, 0.25 * std::max(cv, 0.01) * 5 / 200) << text;
    EXPECT_NEAR(m.cv, cv, 0.05 * cv + 0.01) << text;
  }
}

TEST(Arrivals, bursts_come_together_at_the_rate_over_all) {
  const auto times = draw_arrivals(parsed("burst:8:4"), 12, Random(1, 1));
  const std::vector<double> expected = {0, 0, 0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1};
  EXPECT_EQ(times, expected);
}

TEST(Arrivals, a_seed_gives_the_same_times_and_another_seed_others) {
  const Arrivals spec = parsed("gamma:3:2");
  EXPECT_EQ(draw_arrivals(spec, 100, Random(5, 1)), draw_arrivals(spec, 100, Random(5, 1)));
  EXPECT_NE(draw_arrivals(spec, 100, Random(5, 1)), draw_arrivals(spec, 100, Random(6, 1)));
  // More requests do not move the ones before.
  auto more = draw_arrivals(spec, 200, Random(5, 1));
  more.resize(100);
  EXPECT_EQ(more, draw_arrivals(spec, 100, Random(5, 1)));
}

TEST(Arrivals, what_is_no_arrival_process_is_refused) {
  for (const char* text : {"",
                           "poisson",
                           "poisson:",
                           "poisson:0",
                           "poisson:-1",
                           "poisson:nan",
                           "poisson:inf",
                           "poisson:1:2",
                           "gamma:1",
                           "gamma:1:0",
                           "gamma:1:1e9",
                           "burst:4:0",
                           "closed:0",
                           "closed:2:-1",
                           "closed:2.5",
                           "closed:99999999999",
                           "burst:4:1.5",
                           "trace:0",
                           "x:1",
                           "poisson:1e",
                           "at-once:3",
                           "sometimes:3",
                           "poisson:1e300",
                           "poisson:1e-300"}) {
    const auto spec = parse_arrivals(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Arrivals, say_what_they_are_with_their_rate_or_without) {
  EXPECT_EQ(parsed("gamma:4:2").describe(), "gamma gaps of CV 2, 4 requests/s");
  EXPECT_EQ(parsed("gamma:4:2").describe(false), "gamma gaps of CV 2");
  EXPECT_EQ(parsed("closed:3:0.5").describe(false), "closed loop, 3 clients, 0.5 s between");
}

TEST(Lengths, are_drawn_from_what_is_asked_for) {
  const Lengths uniform = *parse_lengths("prompt", "uniform:10:19"),
                skewed = *parse_lengths("output", "lognormal:100:0.5:20:400");
  Random random(3, 1);
  std::vector<std::int64_t> drawn;
  double sum = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t tokens = uniform.draw(random);
    ASSERT_TRUE(tokens >= 10 && tokens <= 19);
    sum += static_cast<double>(tokens);
    drawn.push_back(skewed.draw(random));
    ASSERT_TRUE(drawn.back() >= 20 && drawn.back() <= 400);
  }
  std::nth_element(drawn.begin(), drawn.begin() + 10'000, drawn.end());
  EXPECT_NEAR(sum / 20'000, 14.5, 0.15);
  EXPECT_NEAR(static_cast<double>(drawn[10'000]), 100, 3);
}

TEST(Lengths, what_is_no_length_is_refused) {
  for (const char* text :
       {"", "0", "-4", "x", "uniform:5", "uniform:9:3", "uniform:0:3", "lognormal:5", "lognormal:5:-1",
        "lognormal:5:1:9", "1e30", "nan", "1.5", "lognormal:0:1", "lognormal:5:99", "99999999999999", "trace:2"})
    EXPECT_FALSE(parse_lengths("input-len", text)) << text;
}

}  // namespace
}  // namespace weir::traffic
