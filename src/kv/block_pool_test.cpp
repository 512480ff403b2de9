#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

namespace weir::kv {
namespace {

// Two blocks are enough to reach every state, and few enough to follow by hand.

TEST(BlockPool, EvictsAnIdleBlockOnlyWhenNothingIsFree) {
  BlockPool pool(2);
  const BlockId a = pool.acquire().value().block;
  EXPECT_EQ(pool.release(a, /*keep=*/true), BlockPool::Release::kIdle);

  const BlockPool::Taken b = pool.acquire().value();
  EXPECT_NE(b.block, a) << "a free block must be preferred, or the cache forgets for no reason";
  EXPECT_FALSE(b.evicted);

  const BlockPool::Taken again = pool.acquire().value();
  EXPECT_EQ(again.block, a) << "now only the idle block is left";
  EXPECT_TRUE(again.evicted);
  EXPECT_FALSE(pool.acquire().has_value());
  pool.check_integrity();
}

TEST(BlockPool, EvictsWhatWasReleasedLongestAgo) {
  BlockPool pool(3);
  BlockId block[3];
  for (BlockId& b : block) b = pool.acquire().value().block;
  for (const int i : {1, 2, 0}) pool.release(block[i], true);
  pool.retain(block[1]);         // a hit takes it out of the order ...
  pool.release(block[1], true);  // ... and it comes back as the youngest
  for (const int i : {2, 0, 1}) EXPECT_EQ(pool.acquire().value().block, block[i]);
}

TEST(BlockPool, CountsReferences) {
  BlockPool pool(2);
  const BlockId a = pool.acquire().value().block;
  pool.retain(a);
  EXPECT_EQ(pool.release(a, true), BlockPool::Release::kStillUsed);
  EXPECT_EQ(pool.in_use(), 1u);
  EXPECT_EQ(pool.release(a, false), BlockPool::Release::kFree);
  EXPECT_EQ(pool.free(), 2u);
}

TEST(BlockPool, ForgottenBlocksAreFree) {
  BlockPool pool(1);
  const BlockId a = pool.acquire().value().block;
  pool.release(a, true);
  EXPECT_EQ(pool.oldest_idle(), a);
  pool.forget(a);
  EXPECT_EQ(pool.oldest_idle(), std::nullopt);
  EXPECT_FALSE(pool.acquire().value().evicted);
}

TEST(BlockPool, AnEmptyPoolHasNothing) {
  BlockPool pool(0);
  EXPECT_FALSE(pool.acquire().has_value());
  pool.check_integrity();
}

TEST(BlockPoolDeathTest, MisuseIsABug) {
  BlockPool pool(2);
  const BlockId a = pool.acquire().value().block;
  pool.release(a, false);
  EXPECT_DEATH(pool.release(a, false), "no reference");
  EXPECT_DEATH(pool.retain(a), "free");
  EXPECT_DEATH(pool.forget(a), "not idle");
}

// For any operations that respect ownership, the pool agrees with maps and lists.
TEST(BlockPool, AgreesWithAModel) {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::uint32_t capacity = 1 + random() % 5;
    BlockPool pool(capacity);
    std::map<std::uint32_t, std::uint32_t> used;
    std::deque<std::uint32_t> idle;
    std::uint32_t free = capacity;
    for (int step = 0; step < 200; ++step) {
      const auto pick = [&random](auto& from) { return std::next(from.begin(), random() % from.size()); };
      switch (random() % 4) {
        case 0: {
          const auto taken = pool.acquire();
          ASSERT_EQ(taken.has_value(), free + idle.size() > 0);
          if (!taken) break;
          ASSERT_EQ(taken->evicted, free == 0);
          if (free == 0) {
            ASSERT_EQ(value(taken->block), idle.front());
            idle.pop_front();
          } else {
            --free;
          }
          ASSERT_FALSE(used.contains(value(taken->block)));
          used[value(taken->block)] = 1;
          break;
        }
        case 1: {
          if (used.empty()) break;
          const auto it = pick(used);
          const bool keep = random() % 2;
          const BlockPool::Release result = pool.release(BlockId{it->first}, keep);
          if (--it->second > 0) {
            ASSERT_EQ(result, BlockPool::Release::kStillUsed);
            break;
          }
          ASSERT_EQ(result, keep ? BlockPool::Release::kIdle : BlockPool::Release::kFree);
          if (keep) {
            idle.push_back(it->first);
          } else {
            ++free;
          }
          used.erase(it);
          break;
        }
        case 2: {
          if (random() % 2 && !idle.empty()) {
            const auto it = pick(idle);
            pool.retain(BlockId{*it});
            used[*it] = 1;
            idle.erase(it);
          } else if (!used.empty()) {
            const auto it = pick(used);
            pool.retain(BlockId{it->first});
            ++it->second;
          }
          break;
        }
        case 3: {
          if (idle.empty() || random() % 4 != 0) break;
          const auto it = pick(idle);
          pool.forget(BlockId{*it});
          idle.erase(it);
          ++free;
          break;
        }
      }
      pool.check_integrity();
      ASSERT_EQ(pool.free(), free);
      ASSERT_EQ(pool.idle(), idle.size());
      ASSERT_EQ(pool.in_use(), used.size());
      for (const auto& [block, references] : used) ASSERT_EQ(pool.references(BlockId{block}), references);
    }
  }
}

}  // namespace
}  // namespace weir::kv
