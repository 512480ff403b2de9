#include "backend/cpu/ops/route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace weir::backend::cpu {
namespace {

using Scores = RouteCall::Scores;

struct Routed {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

Routed routed(RouteCall call, const std::vector<float>& logits, int rows, int used, int threads = 1) {
  ThreadPool pool(threads);
  Routed result;
  result.experts.resize(static_cast<std::size_t>(rows * used));
  result.weights.resize(result.experts.size());
  call.logits = {logits.data(), rows, static_cast<std::int64_t>(logits.size()) / rows};
  call.experts = {result.experts.data(), rows, used};
  call.weights = {result.weights.data(), rows, used};
  route(pool, call);
  return result;
}

TEST(Route, SoftmaxOverAllExperts) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, -1.0f};
  double sum = 0;
  for (const float x : logits) sum += std::exp(x);
  Routed r = routed({.scores = Scores::kSoftmax, .scale = 2.5f}, logits, 1, 2);
  EXPECT_EQ(r.experts, (std::vector<std::int32_t>{1, 2}));
  EXPECT_NEAR(r.weights[0], 2.5 * std::exp(3.0) / sum, 1e-6);
  EXPECT_NEAR(r.weights[1], 2.5 * std::exp(2.0) / sum, 1e-6);
  r = routed({.scores = Scores::kSoftmax, .normalise = true}, logits, 1, 2);
  EXPECT_NEAR(r.weights[0], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(r.weights[0] + r.weights[1], 1.0, 1e-6);
  // The softmax of the chosen alone gives the same as normalising.
  const Routed of_chosen = routed({.scores = Scores::kSoftmaxOfChosen}, logits, 1, 2);
  EXPECT_EQ(of_chosen.experts, r.experts);
  EXPECT_NEAR(of_chosen.weights[0], r.weights[0], 1e-6);
}

TEST(Route, CorrectionsChooseButDoNotWeigh) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f}, correction = {5.0f, 0.0f, 0.0f};
  const Routed r = routed({.scores = Scores::kSigmoid, .correction = correction.data()}, logits, 1, 2);
  EXPECT_EQ(r.experts, (std::vector<std::int32_t>{0, 2}));
  EXPECT_NEAR(r.weights[0], 0.5, 1e-7);
  EXPECT_NEAR(r.weights[1], 1 / (1 + std::exp(-2.0)), 1e-6);
}

TEST(Route, GroupsByTheirBestOneOrTwo) {
  // Group 0 has the best expert, group 1 the best pair.
  const std::vector<float> logits = {3.0f, -5.0f, 2.0f, 2.0f};
  RouteCall call = {.scores = Scores::kSigmoid, .groups = 2, .groups_used = 1, .group_by_two = true};
  EXPECT_EQ(routed(call, logits, 1, 2).experts, (std::vector<std::int32_t>{2, 3}));
  call.group_by_two = false;
  EXPECT_EQ(routed(call, logits, 1, 2).experts, (std::vector<std::int32_t>{0, 1}));
}

TEST(Route, EqualScoresGoToTheLowerNumber) {
  const std::vector<float> logits(8, 1.0f);
  for (const Scores scores : {Scores::kSoftmax, Scores::kSigmoid, Scores::kSoftmaxOfChosen}) {
    EXPECT_EQ(routed({.scores = scores}, logits, 1, 3).experts, (std::vector<std::int32_t>{0, 1, 2}));
    EXPECT_EQ(routed({.scores = scores, .groups = 4, .groups_used = 2}, logits, 1, 3).experts,
              (std::vector<std::int32_t>{0, 1, 2}));
  }
}

// Against sorting, for many rows at once, with any number of threads.
TEST(Route, ChoosesTheBestOfTheBestGroups) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  constexpr int kExperts = 24, kRows = 40, kUsed = 5, kGroups = 6, kGroupsUsed = 3, kSize = kExperts / kGroups;
  std::vector<float> logits(kRows * kExperts);
  for (float& x : logits) x = normal(random);
  const RouteCall call = {.scores = Scores::kSigmoid,
                          .normalise = true,
                          .groups = kGroups,
                          .groups_used = kGroupsUsed,
                          .group_by_two = true};
  const Routed one = routed(call, logits, kRows, kUsed), three = routed(call, logits, kRows, kUsed, 3);
  EXPECT_EQ(one.experts, three.experts);
  EXPECT_EQ(one.weights, three.weights);
  for (int row = 0; row < kRows; ++row) {
    const float* x = logits.data() + row * kExperts;
    const auto pair = [&](int g) {
      std::vector<double> s;
      for (int i = 0; i < kSize; ++i) s.push_back(1 / (1 + std::exp(-double{x[g * kSize + i]})));
      std::sort(s.rbegin(), s.rend());
      return s[0] + s[1];
    };
    std::vector<int> groups(kGroups), experts;
    std::iota(groups.begin(), groups.end(), 0);
    std::sort(groups.begin(), groups.end(), [&](int a, int b) { return pair(a) > pair(b); });
    for (int g = 0; g < kGroupsUsed; ++g) {
      for (int i = 0; i < kSize; ++i) experts.push_back(groups[static_cast<std::size_t>(g)] * kSize + i);
    }
    std::sort(experts.begin(), experts.end(), [&](int a, int b) { return x[a] > x[b]; });
    double sum = 0;
    for (int i = 0; i < kUsed; ++i) {
      EXPECT_EQ(one.experts[static_cast<std::size_t>(row * kUsed + i)], experts[static_cast<std::size_t>(i)]);
      sum += one.weights[static_cast<std::size_t>(row * kUsed + i)];
    }
    EXPECT_NEAR(sum, 1.0, 1e-6);
  }
}

TEST(Route, NotANumberChoosesNobody) {
  const std::vector<float> logits(4, std::nanf(""));
  EXPECT_EQ(routed({.scores = Scores::kSigmoid}, logits, 1, 2).experts, (std::vector<std::int32_t>{-1, -1}));
}

}  // namespace
}  // namespace weir::backend::cpu
