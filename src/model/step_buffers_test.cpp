#include <gtest/gtest.h>

#include "model/model.h"

namespace weir::model {
namespace {

TEST(StepBuffers, CountWhatAStepWrites) {
  load::ModelSpec spec;
  spec.hidden = 64;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 16;
  spec.ffn = 128;
  spec.ropes.resize(1);
  spec.ropes[0].dims = 16;
  const auto sums = [&](std::int64_t rows, std::int64_t logit_rows) {
    std::pair<std::size_t, std::size_t> sum;
    for (const auto& one : Model::step_buffers(spec, {.max_rows = 100}, rows, logit_rows)) {
      EXPECT_LE(one.used, one.bytes);
      sum.first += one.bytes;
      sum.second += one.used;
    }
    return sum;
  };
  // Residual stream, queries, what attention makes, keys, values, feed-forward, cos and sin; then rows for the head.
  constexpr std::size_t kRow = (64 + 64 + 64 + 32 + 32 + 128 + 16) * 4, kHead = 64 * 4;
  EXPECT_EQ(sums(10, 3), std::pair(100 * (kRow + kHead), 10 * kRow + 3 * kHead));
  EXPECT_EQ(sums(1000, 1000), std::pair(100 * (kRow + kHead), 100 * (kRow + kHead)));  // a step has at most max_rows
  spec.post_norms = true;
  EXPECT_EQ(sums(1, 0).second, kRow + kHead);  // and a branch of its own
}

}  // namespace
}  // namespace weir::model
