#include "sample/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace weir::sample {
namespace {

double exact_logprob(const std::vector<float>& logits, TokenId id) {
  long double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<long double>(x));
  return static_cast<double>(logits[static_cast<std::size_t>(id)] - std::log(sum));
}

TEST(Logprobs, equal_the_definition_for_large_and_small_vocabularies) {
  std::mt19937 rng(2);
  for (const std::size_t vocab : {1u, 2u, 31u, 1000u, 262144u}) {
    std::normal_distribution<float> normal(5.0f, 4.0f);
    std::vector<float> logits(vocab);
    for (float& x : logits) x = normal(rng);
    std::vector<TokenId> ids(vocab);
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
      return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    for (const int top : {0, 1, 5, 20}) {
      const auto place = static_cast<std::size_t>(rng() % vocab);
      const auto got = row_logprobs(logits, ids[place], top);
      EXPECT_EQ(got.chosen.id, ids[place]);
      EXPECT_EQ(got.chosen.rank, static_cast<int>(place) + 1);
      EXPECT_NEAR(got.chosen.logprob, exact_logprob(logits, ids[place]), 2e-6 * (1 + std::abs(got.chosen.logprob)));
      ASSERT_EQ(got.top.size(), std::min<std::size_t>(vocab, static_cast<std::size_t>(top)));
      for (std::size_t i = 0; i < got.top.size(); ++i) {
        EXPECT_EQ(got.top[i].id, ids[i]);
        EXPECT_EQ(got.top[i].rank, static_cast<int>(i) + 1);
        EXPECT_NEAR(got.top[i].logprob, exact_logprob(logits, ids[i]), 2e-6 * (1 + std::abs(got.top[i].logprob)));
      }
    }
  }
}

TEST(Logprobs, ties_go_to_the_lower_id) {
  const std::vector<float> logits = {1, 3, 3, 2, 3};
  const auto got = row_logprobs(logits, 4, 4);
  EXPECT_EQ(got.chosen.rank, 1);  // nobody is above it
  std::vector<TokenId> ids;
  for (const auto& entry : got.top) ids.push_back(entry.id);
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 2, 4, 3}));
}

TEST(Logprobs, far_apart_logits_do_not_overflow) {
  const std::vector<float> logits = {-3e38f, 3e38f, 0.0f};
  const auto got = row_logprobs(logits, 1, 3);
  EXPECT_EQ(got.chosen.logprob, 0.0f);
  EXPECT_EQ(got.top[0].id, 1);
}

}  // namespace
}  // namespace weir::sample
