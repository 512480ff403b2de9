#include "plan/sim/theory.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::plan::sim {
namespace {

// The standard error of the mean wait of M/M/1 at load 0.5 is sqrt(29 / n), 0.17 % here (its asymptotic variance: Daley
// 1968); those of the others are less. So half a percent is three of them, and the seed decides nothing.
TEST(Theory, QueuesOfOneServerWaitAsTheoryHasIt) {
  for (const TheoryRow& row : compare_with_theory(10'000'000, 1)) {
    EXPECT_LT(std::abs(row.error()), 0.005)
        << row.queue << ", " << row.what << ": " << row.simulated << " for " << row.expected;
  }
}

}  // namespace
}  // namespace weir::plan::sim
