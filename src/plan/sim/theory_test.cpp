#include "plan/sim/theory.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::plan::sim {
namespace {

// The standard error of the mean wait over so many customers is 0.1 to 0.2 % (M/M/1 at load 0.5: asymptotic variance 29
// of a mean of 1; Daley 1968), so half a percent is three of them.
TEST(Theory, QueuesOfOneServerWaitAsTheoryHasIt) {
  for (const TheoryRow& row : compare_with_theory(8'000'000, 1)) {
    EXPECT_LT(std::abs(row.error()), 0.005)
        << row.queue << ", " << row.what << ": " << row.simulated << " for " << row.expected;
  }
}

}  // namespace
}  // namespace weir::plan::sim
