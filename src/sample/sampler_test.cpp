// The sampler against the definition of each step written out in double with a full sort, and against the distribution
// it has to draw from.
#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "base/rng.h"

namespace weir::sample {
namespace {

SamplerScratch scratch;

std::vector<float> random_logits(std::size_t count, unsigned seed, float spread = 3.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(count);
  for (float& x : logits) x = normal(rng);
  return logits;
}

std::optional<TokenId> sample_once(const SamplingParams& params, std::vector<float> logits, std::int64_t position = 7,
                                   std::span<const TokenId> prompt = {}) {
  return Sampler(params, prompt, {}).sample(logits, position, scratch);
}

// What is left of the distribution after min_p, top_k and top_p, by id; sums to 1.
std::map<TokenId, double> distribution(const SamplingParams& params, const std::vector<float>& logits) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto at = [&](TokenId id) { return static_cast<double>(logits[static_cast<std::size_t>(id)]); };
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return at(a) > at(b); });
  std::vector<double> p;
  for (const TokenId id : ids) p.push_back(std::exp((at(id) - at(ids[0])) / params.temperature));
  std::size_t kept = 0;
  while (kept < p.size() && p[kept] >= params.min_p) ++kept;
  if (params.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(params.top_k));
  if (params.top_p < 1.0f) {
    const double total = std::accumulate(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(kept), 0.0);
    double mass = 0;
    std::size_t n = 0;
    while (n < kept && mass < params.top_p * total) mass += p[n++];
    kept = n;
  }
  const double total = std::accumulate(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(kept), 0.0);
  std::map<TokenId, double> out;
  for (std::size_t i = 0; i < kept; ++i) out[ids[i]] = p[i] / total;
  return out;
}

SamplingParams with(float temperature, int top_k = 0, float top_p = 1.0f, float min_p = 0.0f) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  return params;
}

TEST(Sampler, greedy_takes_the_first_of_the_best) {
  EXPECT_EQ(sample_once(with(0), {1, 5, 5, 2}), 1);
  EXPECT_EQ(sample_once(with(1e-6f), {1, 5, 5, 2}), 1);
}

TEST(Sampler, the_same_seed_and_position_give_the_same_token_and_others_differ) {
  const auto logits = random_logits(1000, 1);
  SamplingParams params = with(1.0f);
  params.seed = 3;
  Sampler once(params, {}, {}), again(params, {}, {});
  std::vector<TokenId> first, second, other;
  for (int position = 0; position < 50; ++position) {
    auto row = logits;
    first.push_back(once.sample(row, position, scratch).value());
  }
  for (int position = 49; position >= 0; --position) {  // the order of the calls does not matter
    auto row = logits;
    second.push_back(again.sample(row, position, scratch).value());
  }
  std::reverse(second.begin(), second.end());
  EXPECT_EQ(first, second);
  params.seed = 4;
  for (int position = 0; position < 50; ++position) other.push_back(*sample_once(params, logits, position));
  EXPECT_NE(first, other);
  EXPECT_NE(first, std::vector<TokenId>(50, first[0]));
}

// Only tokens that survive the cuts are drawn, and as often as they should be: chi-squared over many positions.
TEST(Sampler, draws_from_the_distribution_that_the_cuts_leave) {
  const SamplingParams cases[] = {with(1.0f),
                                  with(0.5f),
                                  with(2.0f),
                                  with(1.0f, 5),
                                  with(1.0f, 1),
                                  with(1.0f, 0, 0.7f),
                                  with(1.0f, 0, 0.1f),
                                  with(1.0f, 0, 1, 0.2f),
                                  with(0.8f, 12, 0.9f, 0.05f),
                                  with(1.5f, 100, 0.95f)};
  constexpr int kDraws = 20000;
  for (const SamplingParams& params : cases) {
    for (const unsigned seed : {5u, 6u}) {
      const auto logits = random_logits(40, seed, 2.0f);
      const auto expected = distribution(params, logits);
      std::map<TokenId, int> counts;
      Sampler sampler(params, {}, {});
      for (int i = 0; i < kDraws; ++i) {
        auto row = logits;
        ++counts[sampler.sample(row, i, scratch).value()];
      }
      double chi = 0;
      int cells = 0;
      for (const auto& [id, p] : expected) {
        if (p * kDraws < 5) continue;  // too rare for the statistic
        const double off = counts[id] - p * kDraws;
        chi += off * off / (p * kDraws);
        ++cells;
      }
      for (const auto& [id, count] : counts) EXPECT_TRUE(expected.contains(id)) << id << " drawn " << count << " times";
      // Mean cells, deviation sqrt(2 cells): five deviations.
      EXPECT_LT(chi, cells + 5 * std::sqrt(2.0 * cells)) << params.temperature << " " << params.top_k;
    }
  }
}

// A vocabulary of Gemma's size whose mass is spread so far that top_p has to look at many candidates.
TEST(Sampler, a_flat_distribution_over_a_large_vocabulary_stays_within_top_p) {
  const auto logits = random_logits(262144, 9, 0.5f);
  const auto params = with(1.0f, 0, 0.5f);
  const auto expected = distribution(params, logits);
  EXPECT_GT(expected.size(), 10000u);
  for (int position = 0; position < 20; ++position) {
    const auto token = sample_once(params, logits, position);
    EXPECT_TRUE(expected.contains(token.value()));
  }
}

TEST(Sampler, penalties_follow_their_definitions) {
  const std::vector<float> logits = {2.0f, -2.0f, 1.0f, 0.5f, 0.0f};
  const TokenId prompt[] = {0, 1, 0};
  SamplingParams params = with(0);
  params.repetition_penalty = 2.0f;
  auto row = logits;
  Sampler repetition(params, prompt, {});
  repetition.accept(2);
  EXPECT_EQ(repetition.sample(row, 0, scratch), 0);
  EXPECT_EQ(row, (std::vector<float>{1.0f, -4.0f, 0.5f, 0.5f, 0.0f}));

  params = with(0);
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  Sampler counted(params, prompt, {});
  for (const TokenId token : {0, 0, 3}) counted.accept(token);
  row = logits;
  counted.sample(row, 0, scratch);
  EXPECT_EQ(row, (std::vector<float>{1.0f, -2.0f, 1.0f, -0.25f, 0.0f}));  // the prompt does not count
}

TEST(Sampler, bias_comes_before_penalties_and_reaches_only_its_tokens) {
  SamplingParams params = with(0);
  params.logit_bias = {{1, 100.0f}, {2, -100.0f}, {-1, 5.0f}, {99, 5.0f}};
  auto row = std::vector<float>{0.0f, -50.0f, 60.0f};
  EXPECT_EQ(Sampler(params, {}, {}).sample(row, 0, scratch), 1);
  EXPECT_EQ(row, (std::vector<float>{0.0f, 50.0f, -40.0f}));
}

TEST(Sampler, end_tokens_wait_for_min_tokens) {
  SamplingParams params = with(0);
  params.min_tokens = 2;
  Sampler sampler(params, {}, {3, 0});
  for (int i = 0; i < 2; ++i) {
    std::vector<float> row = {8, 1, 2, 9};
    EXPECT_EQ(sampler.sample(row, i, scratch), 2);
    sampler.accept(2);
  }
  std::vector<float> row = {8, 1, 2, 9};
  EXPECT_EQ(sampler.sample(row, 2, scratch), 3);
}

TEST(Sampler, broken_rows_give_no_token) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const float temperature : {0.0f, 1.0f}) {
    EXPECT_FALSE(sample_once(with(temperature), {1, nan, 2}));
    EXPECT_FALSE(sample_once(with(temperature), {nan, nan}));
    EXPECT_FALSE(sample_once(with(temperature), {-inf, -inf}));
    EXPECT_FALSE(sample_once(with(temperature), {1, inf}));
    EXPECT_EQ(sample_once(with(temperature), {-inf, 1, -inf}), 1);
  }
}

TEST(Sampler, extreme_logits_do_not_overflow) {
  const float large = std::numeric_limits<float>::max();
  EXPECT_EQ(sample_once(with(1.0f), {-large, large, 0}), 1);
  EXPECT_EQ(sample_once(with(0.01f, 0, 0.9f), {-1e30f, 1e30f, 0}), 1);
}

}  // namespace
}  // namespace weir::sample
