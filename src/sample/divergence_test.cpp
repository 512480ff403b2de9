// Oracle: the definitions in long double.
#include "sample/divergence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace weir::sample {
namespace {

using Row = std::vector<float>;

std::vector<long double> log_softmax(const Row& row) {
  const long double max = *std::max_element(row.begin(), row.end());
  long double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<long double>(x) - max);
  std::vector<long double> out;
  for (const float x : row) out.push_back(static_cast<long double>(x) - max - std::log(sum));
  return out;
}

TEST(Divergence, IsThatOfTheDefinition) {
  std::mt19937 random(1);
  for (const std::size_t size : {1u, 2u, 17u, 1000u, 50257u}) {
    for (const float spread : {0.01f, 1.0f, 8.0f, 40.0f}) {
      std::normal_distribution<float> draw(3.0f, spread);
      Row a(size), b(size);
      for (float& x : a) x = draw(random);
      for (std::size_t i = 0; i < size; ++i) b[i] = a[i] + draw(random) / 20;
      const auto target = static_cast<TokenId>(random() % size);
      const auto p = log_softmax(a), q = log_softmax(b);
      long double kl = 0;
      for (std::size_t i = 0; i < size; ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
      const auto row = compare_rows(a, b, target);
      EXPECT_NEAR(static_cast<double>(kl), row.kl, 1e-6 * static_cast<double>(kl) + 1e-6);
      EXPECT_EQ(row.kl, compare_rows(b, a, target).reverse_kl);
      EXPECT_NEAR(static_cast<double>(-p[static_cast<std::size_t>(target)]), row.base_surprise, 1e-5);
      EXPECT_NEAR(static_cast<double>(-q[static_cast<std::size_t>(target)]), row.surprise, 1e-5);
      EXPECT_EQ(row.surprise, surprise(b, target));
      EXPECT_EQ(std::max_element(a.begin(), a.end()) - a.begin() == std::max_element(b.begin(), b.end()) - b.begin(),
                row.same_best);
      EXPECT_EQ(0.0, compare_rows(a, a, target).kl);
    }
  }
}

TEST(Divergence, TokensThatNeverComeCountNothing) {
  const float none = -std::numeric_limits<float>::infinity();
  const Row a = {1, none, 2}, b = {1, none, 2}, c = {1, 5, 2}, d = {1, 0, none};
  EXPECT_EQ(0.0, compare_rows(a, b, 0).kl);
  EXPECT_TRUE(std::isfinite(compare_rows(a, c, 0).kl));
  EXPECT_EQ(std::numeric_limits<double>::infinity(), compare_rows(a, d, 0).kl);
}

TEST(Estimates, AreThoseOfTheDefinition) {
  const std::vector<double> values = {1, 2, 3, 4, 10};
  const auto e = estimate(values);
  EXPECT_DOUBLE_EQ(4, e.mean);
  EXPECT_NEAR(std::sqrt(12.5 / 5), e.error, 1e-12);
  EXPECT_DOUBLE_EQ(std::exp(4), exp_of(e).mean);
  EXPECT_DOUBLE_EQ(3, percentile(values, 0.5));
  EXPECT_DOUBLE_EQ(1, percentile(values, 0));
  EXPECT_DOUBLE_EQ(10, percentile(values, 1));
  EXPECT_DOUBLE_EQ(1.4, percentile(values, 0.1));
  EXPECT_EQ(0, estimate({}).mean);
  EXPECT_EQ(0, estimate(std::vector<double>{7}).error);
}

}  // namespace
}  // namespace weir::sample
