#include "backend/cpu/work_shares.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/thread_pool.h"

namespace weir::backend::cpu {
namespace {

TEST(WorkShares, AWorkerAloneTakesItsOwnInOrderThenTheOthersFromTheBack) {
  WorkShares shares(3);
  shares.open(0, 2);
  shares.open(1, 1);
  shares.open(2, 3);
  EXPECT_EQ(shares.next_own(0), 0);
  std::vector<std::pair<int, int>> taken;
  while (const auto item = shares.take(0)) taken.emplace_back(item->owner, item->index);
  EXPECT_EQ(taken, (std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 0}, {2, 2}, {2, 1}, {2, 0}}));
  EXPECT_EQ(shares.next_own(0), -1);
  EXPECT_EQ(shares.next_own(2), -1);
  EXPECT_FALSE(shares.take(1));
}

TEST(WorkShares, NothingToTake) {
  WorkShares shares(2);
  EXPECT_FALSE(shares.take(0));
  shares.open(0, 0);
  shares.open(1, 0);
  EXPECT_FALSE(shares.take(1));
}

// What happens to the items is not atomic: only one thread may have each, and the pool orders the rounds.
TEST(WorkShares, ManyThreadsTakeEveryItemOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    WorkShares shares(threads);
    std::vector<std::vector<int>> times(static_cast<std::size_t>(threads));
    for (int round = 0; round < 300; ++round) {
      for (int w = 0; w < threads; ++w) {
        const int count = (w * 37 + round) % 50;  // uneven, some without any
        times[static_cast<std::size_t>(w)].assign(static_cast<std::size_t>(count), 0);
        shares.open(w, count);
      }
      pool.run([&](int w, int) {
        while (const auto item = shares.take(w))
          ++times[static_cast<std::size_t>(item->owner)][static_cast<std::size_t>(item->index)];
      });
      for (const std::vector<int>& of_worker : times) {
        for (const int count : of_worker) ASSERT_EQ(count, 1);
      }
    }
  }
}

}  // namespace
}  // namespace weir::backend::cpu
