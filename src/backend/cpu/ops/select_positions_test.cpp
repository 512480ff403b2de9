#include "backend/cpu/ops/select_positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "backend/cpu/ops/rows.h"

namespace weir::backend::cpu {
namespace {

constexpr int kHeads = 5, kDim = 24;

// A sequence of `length` keys in blocks of the given size, scattered; the last `queries` tokens choose.
struct Indexed {
  int length, block_tokens;
  std::vector<float> keys, q, weights;
  std::vector<std::byte> memory;
  std::vector<std::int32_t> table;

  Indexed(int length, int block_tokens, unsigned seed, int levels = 0) : length(length), block_tokens(block_tokens) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& x, int count) {
      x.resize(static_cast<std::size_t>(count));
      // With few levels many scores are equal.
      for (float& v : x) v = levels > 0 ? std::round(normal(random) * static_cast<float>(levels)) : normal(random);
    };
    fill(keys, length * kDim);
    fill(q, length * kHeads * kDim);
    fill(weights, length * kHeads);
    const int blocks = (length + block_tokens - 1) / block_tokens;
    table.resize(static_cast<std::size_t>(blocks));
    std::iota(table.rbegin(), table.rend(), 1);
    memory.assign(static_cast<std::size_t>((blocks + 1) * block_tokens * kDim) * sizeof(float), std::byte{0xff});
  }

  KvLayerView view() {
    return {.base = memory.data(),
            .block_stride = std::int64_t{block_tokens} * kDim * 4,
            .block_tokens = block_tokens,
            .heads = 1,
            .head_dim = kDim,
            .dtype = DType::kF32,
            .values_in_keys = true};
  }

  // In steps of `chunk` tokens, each written before it chooses.
  std::vector<std::int32_t> choose(Isa isa, int threads, int chunk, int most) {
    ThreadPool pool(threads);
    SelectScratch scratch;
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(length * most), -7);
    for (int begin = 0; begin < length; begin += chunk) {
      const int end = std::min(begin + chunk, length);
      std::vector<std::int64_t> slots;
      for (int i = begin; i < end; ++i)
        slots.push_back(table[static_cast<std::size_t>(i / block_tokens)] * block_tokens + i % block_tokens);
      kv_write(pool, isa, {{keys.data() + begin * kDim, end - begin, kDim}, {}, view(), slots});
      const std::vector<std::int32_t> starts = {0, end - begin}, lengths = {end};
      select_positions(pool, isa,
                       {.q = {q.data() + begin * kHeads * kDim, end - begin, kHeads * kDim},
                        .weights = {weights.data() + begin * kHeads, end - begin, kHeads},
                        .keys = view(),
                        .query_starts = starts,
                        .seq_lens = lengths,
                        .block_tables = {table.data(), 1, static_cast<std::int64_t>(table.size())},
                        .positions = {chosen.data() + begin * most, end - begin, most}},
                       scratch);
    }
    return chosen;
  }

  double score(int query, int position) const {
    double sum = 0;
    for (int h = 0; h < kHeads; ++h) {
      double dot = 0;
      for (int d = 0; d < kDim; ++d) {
        dot += double{q[static_cast<std::size_t>((query * kHeads + h) * kDim + d)]} *
               keys[static_cast<std::size_t>(position * kDim + d)];
      }
      sum += weights[static_cast<std::size_t>(query * kHeads + h)] * std::max(dot, 0.0);
    }
    return sum;
  }
};

class SelectTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!supported(GetParam())) GTEST_SKIP() << "this CPU has no such instructions";
  }
};

// With numbers that multiply and add up exactly, the choice is the definition's to the last position, ties included.
TEST_P(SelectTest, ChoosesTheBestAndTheEarlierOfEquals) {
  constexpr int kMost = 37;
  Indexed indexed(300, 7, 5, 1);
  const auto chosen = indexed.choose(GetParam(), 2, 300, kMost);
  int ties = 0;
  for (int query = 0; query < indexed.length; ++query) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(query) + 1);
    std::iota(order.begin(), order.end(), 0);
    std::vector<double> scores;
    for (int s = 0; s <= query; ++s) scores.push_back(indexed.score(query, s));
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    if (order.size() > kMost) {
      ties += scores[static_cast<std::size_t>(order[kMost - 1])] == scores[static_cast<std::size_t>(order[kMost])];
      order.resize(kMost);
    }
    std::sort(order.begin(), order.end());
    order.resize(kMost, -1);
    const auto at = chosen.begin() + query * kMost;
    EXPECT_TRUE(std::equal(order.begin(), order.end(), at)) << "query " << query;
  }
  EXPECT_GT(ties, 10) << "the test is about ties";
}

TEST_P(SelectTest, TheChoiceDoesNotDependOnChunksBlocksOrThreads) {
  constexpr int kMost = 50;
  const auto want = Indexed(400, 16, 9).choose(GetParam(), 1, 400, kMost);
  EXPECT_EQ(Indexed(400, 1, 9).choose(GetParam(), 3, 1, kMost), want);
  EXPECT_EQ(Indexed(400, 64, 9).choose(GetParam(), 2, 33, kMost), want);
}

TEST_P(SelectTest, WhatIsNoNumberComesLast) {
  Indexed indexed(100, 16, 3);
  for (int d = 0; d < kDim; ++d) indexed.keys[static_cast<std::size_t>(10 * kDim + d)] = std::nanf("");
  const auto chosen = indexed.choose(GetParam(), 1, 100, 99);
  const auto last = std::vector<std::int32_t>(chosen.end() - 99, chosen.end());
  EXPECT_TRUE(std::is_sorted(last.begin(), last.end()));
  EXPECT_EQ(std::count(last.begin(), last.end(), 10), 0);
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, SelectTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace weir::backend::cpu
