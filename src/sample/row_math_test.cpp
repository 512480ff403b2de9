#include "sample/row_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace weir::sample {
namespace {

TEST(RowMath, exp_is_right_to_a_few_units_in_the_last_place) {
  for (double x = 0; x > -87.0; x -= 0.00317) {
    std::vector<float> row = {static_cast<float>(x)};
    exp_row(row, 0.0f, 1.0f, std::numeric_limits<float>::min());
    const double exact = std::exp(static_cast<double>(static_cast<float>(x)));
    EXPECT_NEAR(row[0], exact, 3e-7 * exact) << x;
  }
  std::vector<float> row = {0.0f, -1e30f, -std::numeric_limits<float>::infinity(), -88.0f};
  exp_row(row, 0.0f, 1.0f, std::numeric_limits<float>::min());
  EXPECT_EQ(row, (std::vector<float>{1, 0, 0, 0}));
}

TEST(RowMath, agrees_with_plain_loops_at_odd_sizes) {
  std::mt19937 rng(4);
  std::normal_distribution<float> normal(0, 3);
  for (const std::size_t count : {1u, 2u, 15u, 16u, 17u, 1023u, 1024u, 1025u, 5000u}) {
    std::vector<float> row(count);
    for (float& x : row) x = normal(rng);
    float max = row[0];
    for (const float x : row) max = std::max(max, x);
    EXPECT_EQ(row_max(row), max);
    EXPECT_EQ(row[index_of(row, max)], max);
    double sum = 0, mass = 0;
    std::size_t above = 0, from = 0;
    const float level = row[count / 2];
    for (const float x : row) {
      sum += std::exp(static_cast<double>(x) - max);
      above += x > level ? 1 : 0;
    }
    EXPECT_NEAR(sum_exp(row, max), sum, 1e-6 * sum);
    EXPECT_EQ(count_above(row, level), above);
    exp_row(row, max, 0.7f, 1e-3f);
    for (const float p : row) {
      EXPECT_TRUE(p == 0 || p >= 1e-3f);
      mass += p >= 0.01f ? p : 0;
      from += p >= 0.01f ? 1 : 0;
    }
    EXPECT_NEAR(mass_from(row, 0.01f).sum, mass, 1e-5 * (mass + 1));
    EXPECT_EQ(mass_from(row, 0.01f).count, from);
  }
}

TEST(RowMath, a_nan_anywhere_makes_the_maximum_nan) {
  for (const std::size_t count : {1u, 16u, 40u}) {
    for (std::size_t at = 0; at < count; ++at) {
      std::vector<float> row(count, 1.0f);
      row[at] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(row_max(row)));
    }
  }
}

}  // namespace
}  // namespace weir::sample
