#include "backend/cpu/ops/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/ops/select.h"
#include "base/rng.h"
#include "tensor/half.h"

namespace weir::backend::cpu {
namespace {

std::vector<float> random_values(std::size_t count, std::uint64_t seed, double scale = 2.0) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>((uniform(seed, i) * 2 - 1) * scale);
  return x;
}

class RowsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!supported(GetParam())) GTEST_SKIP() << "this CPU has no " << name(GetParam());
  }

  ThreadPool pool_{3};
};

TEST_P(RowsTest, HeadNormRopeFollowsItsDefinition) {
  struct Case {
    int head_dim, dims;
    bool adjacent, norm;
  };
  for (const auto& [head_dim, dims, adjacent, norm] :
       {Case{64, 64, false, true}, Case{64, 64, true, false}, Case{80, 20, false, true}, Case{96, 50, true, true},
        Case{24, 24, false, false}, Case{128, 0, false, true}, Case{8, 2, true, true}, Case{256, 256, false, true}}) {
    constexpr int kRows = 37, kHeads = 3, kPositions = 50;
    const std::size_t width = static_cast<std::size_t>(kHeads * head_dim);
    const auto x = random_values(kRows * width, 1);
    const auto weight = random_values(static_cast<std::size_t>(head_dim), 2);
    const auto cos = random_values(static_cast<std::size_t>(kPositions * dims / 2), 3),
               sin = random_values(cos.size(), 4);
    std::vector<std::int32_t> positions;
    for (int i = 0; i < kRows; ++i) positions.push_back((i * 7) % kPositions);
    const RopeTable rope = {cos.data(), sin.data(), kPositions, dims, adjacent};
    auto y = x;
    head_norm_rope(pool_, GetParam(),
                   {{y.data(), kRows, static_cast<std::int64_t>(width)},
                    head_dim,
                    norm ? weight.data() : nullptr,
                    0,
                    1e-3f,
                    dims > 0 ? &rope : nullptr,
                    0,
                    positions});
    for (int row = 0; row < kRows; ++row) {
      for (int head = 0; head < kHeads; ++head) {
        const std::size_t at = static_cast<std::size_t>(row) * width + static_cast<std::size_t>(head * head_dim);
        std::vector<double> want(x.begin() + static_cast<std::ptrdiff_t>(at),
                                 x.begin() + static_cast<std::ptrdiff_t>(at) + head_dim);
        if (norm) {
          double squares = 0;
          for (const double v : want) squares += v * v;
          for (int d = 0; d < head_dim; ++d)
            want[static_cast<std::size_t>(d)] *=
                weight[static_cast<std::size_t>(d)] / std::sqrt(squares / head_dim + 1e-3);
        }
        for (int i = 0; i < dims / 2; ++i) {
          const auto a = static_cast<std::size_t>(adjacent ? 2 * i : i),
                     b = static_cast<std::size_t>(adjacent ? 2 * i + 1 : i + dims / 2);
          const auto pair = static_cast<std::size_t>(positions[static_cast<std::size_t>(row)] * dims / 2 + i);
          const double c = cos[pair], s = sin[pair], xa = want[a], xb = want[b];
          want[a] = xa * c - xb * s;
          want[b] = xb * c + xa * s;
        }
        for (int d = 0; d < head_dim; ++d) {
          ASSERT_NEAR(y[at + static_cast<std::size_t>(d)], want[static_cast<std::size_t>(d)], 4e-6)
              << head_dim << ' ' << dims << ' ' << d;
        }
      }
    }
  }
}

TEST_P(RowsTest, HeadNormRopeGivesTheSameBitsOnEveryIsa) {
  for (const int head_dim : {8, 24, 64, 80, 200}) {
    const auto weight = random_values(static_cast<std::size_t>(head_dim), 2),
               angles = random_values(static_cast<std::size_t>(head_dim), 3);
    auto x = random_values(static_cast<std::size_t>(head_dim), 5), y = x;
    for (const bool adjacent : {false, true}) {
      HeadNormRope head = {x.data(), head_dim, weight.data(), 1e-6f, angles.data(), angles.data() + head_dim / 2,
                           head_dim, adjacent};
      kOpKernelsScalar.head_norm_rope(head);
      head.x = y.data();
      op_kernels(GetParam()).head_norm_rope(head);
      ASSERT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0) << head_dim;
    }
  }
}

TEST_P(RowsTest, KvWritePutsEachHeadInItsPlace) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    constexpr int kHeads = 3, kDim = 24, kBlock = 5, kBlocks = 7, kRows = 20;
    const std::int64_t bytes = tensor::row_bytes(dtype, 1), layer = 2 * kHeads * kBlock * kDim * bytes,
                       stride = 2 * layer;
    std::vector<std::byte> arena(static_cast<std::size_t>(stride * kBlocks), std::byte{0xee});
    const auto k = random_values(kRows * kHeads * kDim, 1), v = random_values(kRows * kHeads * kDim, 2);
    std::vector<std::int64_t> slots;
    for (int i = 0; i < kRows; ++i) slots.push_back((i * 11) % (kBlocks * kBlock));
    const KvLayerView view = {arena.data() + layer, stride, kBlock, kHeads, kDim, dtype};
    kv_write(pool_, GetParam(), {{k.data(), kRows, kHeads * kDim}, {v.data(), kRows, kHeads * kDim}, view, slots});
    std::size_t touched = 0;
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < 2 * kHeads * kDim; ++i) {
        const int side = i / (kHeads * kDim), head = i / kDim % kHeads, d = i % kDim;
        const std::int64_t block = slots[static_cast<std::size_t>(row)] / kBlock,
                           token = slots[static_cast<std::size_t>(row)] % kBlock;
        const std::byte* at =
            view.base + block * stride + (((side * kHeads + head) * kBlock + token) * kDim + d) * bytes;
        const float x = (side == 0 ? k : v)[static_cast<std::size_t>(row * kHeads * kDim + head * kDim + d)];
        float full;
        std::uint16_t half;
        std::memcpy(&half, at, 2);
        if (dtype == DType::kF32) {
          std::memcpy(&full, at, 4);
          ASSERT_EQ(full, x);
        } else {
          ASSERT_EQ(half, dtype == DType::kF16 ? tensor::f16_from_f32(x) : tensor::bf16_from_f32(x));
        }
        touched += static_cast<std::size_t>(bytes);
      }
    }
    std::size_t untouched = 0;
    for (const std::byte b : arena) untouched += b == std::byte{0xee};
    EXPECT_GE(untouched, arena.size() - touched);  // a stored byte may happen to be 0xee
    for (std::int64_t b = 0; b < kBlocks; ++b) {
      for (std::int64_t i = 0; i < layer; ++i)
        ASSERT_EQ(arena[static_cast<std::size_t>(b * stride + i)], std::byte{0xee}) << "another layer";
    }
  }
}

TEST_P(RowsTest, KvWriteFillsVectorsUpWithZeros) {
  constexpr int kHeads = 2, kKeys = 14, kValues = 3, kBlock = 4, kStoredKeys = 16, kStoredValues = 8;
  const auto k = random_values(kBlock * kHeads * kKeys, 1), v = random_values(kBlock * kHeads * kValues, 2);
  std::vector<float> block(kHeads * kBlock * (kStoredKeys + kStoredValues), 7.0f);
  const KvLayerView view = {reinterpret_cast<std::byte*>(block.data()),
                            static_cast<std::int64_t>(block.size() * sizeof(float)),
                            kBlock,
                            kHeads,
                            kKeys,
                            DType::kF32,
                            kValues};
  const std::vector<std::int64_t> slots = {0, 1, 2, 3};
  kv_write(pool_, GetParam(), {{k.data(), kBlock, kHeads * kKeys}, {v.data(), kBlock, kHeads * kValues}, view, slots});
  const auto check = [&](const std::vector<float>& from, const float* stored, int dim, int stored_dim) {
    for (int head = 0; head < kHeads; ++head) {
      for (int token = 0; token < kBlock; ++token) {
        for (int d = 0; d < stored_dim; ++d) {
          const float wanted = d < dim ? from[static_cast<std::size_t>((token * kHeads + head) * dim + d)] : 0.0f;
          ASSERT_EQ(stored[(head * kBlock + token) * stored_dim + d], wanted) << head << ' ' << token << ' ' << d;
        }
      }
    }
  };
  check(k, block.data(), kKeys, kStoredKeys);
  check(v, block.data() + kHeads * kBlock * kStoredKeys, kValues, kStoredValues);
}

TEST_P(RowsTest, StoresRoundLikeTheConversionsAndSaturate) {
  const OpKernels& kernels = op_kernels(GetParam());
  std::vector<float> x = {0.0f,
                          -0.0f,
                          1.0f,
                          65504.0f,
                          65519.9f,
                          65520.0f,
                          1e9f,
                          -1e9f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          1e-8f,
                          5.9604645e-8f,
                          2.9802322e-8f,
                          3e-8f,
                          6.1e-5f,
                          1e-40f};
  for (std::uint64_t i = 0; x.size() < 4096; ++i) {
    const auto bits = static_cast<std::uint32_t>(philox(7, i)[0]);
    float value;
    std::memcpy(&value, &bits, 4);
    if (!std::isnan(value)) x.push_back(value);
  }
  std::vector<std::uint16_t> stored(x.size());
  kernels.store_kv(KvKind::kF16, x.data(), static_cast<int>(x.size()), reinterpret_cast<std::byte*>(stored.data()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(stored[i], tensor::f16_from_f32(std::min(65504.0f, std::max(-65504.0f, x[i])))) << x[i];
  }
  kernels.store_kv(KvKind::kBF16, x.data(), static_cast<int>(x.size()), reinterpret_cast<std::byte*>(stored.data()));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(stored[i], tensor::bf16_from_f32(x[i])) << x[i];
  std::vector<float> nan(16, std::numeric_limits<float>::quiet_NaN());
  kernels.store_kv(KvKind::kF16, nan.data(), 16, reinterpret_cast<std::byte*>(stored.data()));
  EXPECT_TRUE(std::isnan(tensor::f32_from_f16(stored[3])));
  kernels.store_kv(KvKind::kBF16, nan.data(), 16, reinterpret_cast<std::byte*>(stored.data()));
  EXPECT_TRUE(std::isnan(tensor::f32_from_bf16(stored[3])));
}

TEST_P(RowsTest, Exp2IsAccurateAndTheSameInEveryLane) {
  const OpKernels& kernels = op_kernels(GetParam());
  std::vector<float> x;
  for (int i = 0; i <= 100000; ++i) x.push_back(-99.9f * static_cast<float>(i) / 100000.0f);
  std::vector<float> y(x.size());
  kernels.exp2(x.data(), static_cast<std::int64_t>(x.size()), y.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp2(double{x[i]});
    ASSERT_NEAR(y[i], want, 1.5e-7 * want) << x[i];
    float alone;
    if (i % 37 == 0) {
      kernels.exp2(&x[i], 1, &alone);
      ASSERT_EQ(alone, y[i]);
    }
  }
  const std::vector<float> special = {0.0f, -100.5f, -std::numeric_limits<float>::infinity(),
                                      std::numeric_limits<float>::quiet_NaN()};
  kernels.exp2(special.data(), 4, y.data());
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST_P(RowsTest, SoftcapIsAccurateForAnyWidth) {
  for (const std::int64_t cols : {1, 7, 64, 5001, 20000}) {
    auto x = random_values(static_cast<std::size_t>(3 * cols), 6, 200.0);
    x[0] = 1e-6f;
    auto y = x;
    softcap(pool_, GetParam(), {y.data(), 3, cols}, 30.0f);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = 30.0 * std::tanh(double{x[i]} / 30.0);
      ASSERT_NEAR(y[i], want, 3e-7 * std::abs(want) + 1e-12) << x[i];
      float alone = x[i];
      if (i % 97 == 0) {
        softcap(pool_, GetParam(), {&alone, 1, 1}, 30.0f);
        ASSERT_EQ(alone, y[i]);
      }
    }
  }
  std::vector<float> extremes = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN(), -0.0f};
  softcap(pool_, GetParam(), {extremes.data(), 1, 4}, 30.0f);
  EXPECT_EQ(extremes[0], 30.0f);
  EXPECT_EQ(extremes[1], -30.0f);
  EXPECT_TRUE(std::isnan(extremes[2]));
  EXPECT_EQ(extremes[3], 0.0f);
}

TEST(GatherRows, CopiesTheNamedRowsInOrder) {
  ThreadPool pool(2);
  constexpr std::int64_t kCols = 1000;
  const auto x = random_values(20 * 1010, 1);
  const std::vector<std::int32_t> rows = {3, 0, 19, 3, 7, 8, 9, 10, 11, 12};
  std::vector<float> out(rows.size() * kCols);
  gather_rows(pool, {x.data(), 20, kCols, 1010}, rows, {out.data(), static_cast<std::int64_t>(rows.size()), kCols});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::memcmp(out.data() + i * kCols, x.data() + rows[i] * 1010, kCols * sizeof(float)), 0);
  }
  gather_rows(pool, {x.data(), 20, kCols, 1010}, {}, {out.data(), 0, kCols});
}

// Latent attention's key: the latent is normed, what follows it is rotated.
TEST_P(RowsTest, NormAndRotationOfDifferentParts) {
  constexpr int kNormed = 20, kTurned = 8, kDim = kNormed + kTurned;
  auto x = random_values(2 * kDim, 1);
  const auto before = x, weight = random_values(kNormed, 2);
  const std::vector<float> cos = {1.0f, 0.5f, 0.25f, 0.0f}, sin = {0.0f, 0.5f, 1.0f, -1.0f};
  const RopeTable rope = {cos.data(), sin.data(), 1, kTurned, true};
  const std::vector<std::int32_t> positions = {0};
  head_norm_rope(pool_, GetParam(),
                 {.x = {x.data(), 1, 2 * kDim},
                  .head_dim = kDim,
                  .norm_weight = weight.data(),
                  .norm_dims = kNormed,
                  .norm_eps = 1e-5f,
                  .rope = &rope,
                  .rope_begin = kNormed,
                  .positions = positions});
  for (int head = 0; head < 2; ++head) {
    const float *was = before.data() + head * kDim, *is = x.data() + head * kDim;
    double sum = 0;
    for (int i = 0; i < kNormed; ++i) sum += double{was[i]} * was[i];
    const double scale = 1 / std::sqrt(sum / kNormed + 1e-5);
    for (int i = 0; i < kNormed; ++i) EXPECT_NEAR(is[i], was[i] * scale * weight[static_cast<std::size_t>(i)], 1e-5);
    for (int i = 0; i < kTurned / 2; ++i) {
      const float a = was[kNormed + 2 * i], b = was[kNormed + 2 * i + 1];
      const auto p = static_cast<std::size_t>(i);
      EXPECT_NEAR(is[kNormed + 2 * i], a * cos[p] - b * sin[p], 1e-6);
      EXPECT_NEAR(is[kNormed + 2 * i + 1], b * cos[p] + a * sin[p], 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, RowsTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(LayerNorm, FollowsItsDefinition) {
  ThreadPool pool(3);
  constexpr int kRows = 5, kCols = 1003;
  const auto x = random_values(kRows * kCols, 1), weight = random_values(kCols, 2), bias = random_values(kCols, 3);
  for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
    auto y = x;  // in place
    layer_norm(pool, {y.data(), kRows, kCols}, weight.data(), b, 1e-3f, {y.data(), kRows, kCols});
    for (std::size_t row = 0; row < kRows; ++row) {
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < kCols; ++i) mean += x[row * kCols + i] / double{kCols};
      for (std::size_t i = 0; i < kCols; ++i) variance += std::pow(x[row * kCols + i] - mean, 2) / kCols;
      for (std::size_t i = 0; i < kCols; ++i) {
        const double want = (x[row * kCols + i] - mean) / std::sqrt(variance + 1e-3) * weight[i];
        EXPECT_NEAR(y[row * kCols + i], want + (b == nullptr ? 0.0f : b[i]), 2e-5);
      }
    }
  }
}

TEST(Add, ScalesAndGates) {
  ThreadPool pool(2);
  const std::vector<float> from = {1.0f, 2.0f, 3.0f, 4.0f}, gate = {0.0f, 3.0f};
  std::vector<float> to = {10.0f, 20.0f, 30.0f, 40.0f};
  add(pool, {.from = {from.data(), 2, 2}, .scale = 0.5f, .to = {to.data(), 2, 2}});
  EXPECT_EQ(to, (std::vector<float>{10.5f, 21.0f, 31.5f, 42.0f}));
  add(pool, {.from = {from.data(), 2, 2}, .gate = {gate.data(), 2, 1}, .to = {to.data(), 2, 2}});
  EXPECT_FLOAT_EQ(to[0], 11.0f);
  EXPECT_FLOAT_EQ(to[3], 42.0f + 4.0f / (1.0f + std::exp(-3.0f)));
}

TEST(MultiplyGate, SigmoidAndSilu) {
  ThreadPool pool(2);
  const std::vector<float> gate = {0.0f, 2.0f, -100.0f, 100.0f};
  std::vector<float> x = {4.0f, 4.0f, 4.0f, 4.0f}, y = x;
  multiply_sigmoid(pool, {gate.data(), 2, 2}, {x.data(), 2, 2});
  multiply_silu(pool, {gate.data(), 2, 2}, {y.data(), 2, 2});
  for (std::size_t i = 0; i < 4; ++i) {
    const double sigmoid = 1 / (1 + std::exp(-double{gate[i]}));
    EXPECT_NEAR(x[i], 4 * sigmoid, 1e-6);
    EXPECT_NEAR(y[i], 4 * gate[i] * sigmoid, 1e-4);
  }
}

TEST(Clamp, KeepsWhatIsWithinAndNan) {
  ThreadPool pool(2);
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  std::vector<float> x = {-1.5f, -2.5f, 1.5f, infinite, nan, -infinite};
  clamp(pool, 1.5f, {x.data(), 2, 3});
  EXPECT_EQ(std::vector<float>(x.begin(), x.begin() + 4), (std::vector<float>{-1.5f, -1.5f, 1.5f, 1.5f}));
  EXPECT_TRUE(std::isnan(x[4]));
  EXPECT_EQ(x[5], -1.5f);
}

TEST(CopyHeads, MovesPartsOfHeads) {
  ThreadPool pool(2);
  const std::vector<float> from = {1, 2, 3, 4, 5, 6};
  std::vector<float> to(8, 0.0f);
  copy_heads(pool, {.from = {from.data(), 1, 6},
                    .from_head = 3,
                    .from_begin = 1,
                    .to = {to.data(), 1, 8},
                    .to_head = 4,
                    .to_begin = 2,
                    .heads = 2,
                    .count = 2});
  EXPECT_EQ(to, (std::vector<float>{0, 0, 2, 3, 0, 0, 5, 6}));
}

}  // namespace
}  // namespace weir::backend::cpu
