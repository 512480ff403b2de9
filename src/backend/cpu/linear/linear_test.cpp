// Linear layers on every ISA this machine has, against arithmetic in double on weights decoded here from the block
// formats' definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/linear/linear.h"
#include "backend/cpu/linear/testing.h"
#include "tensor/half.h"

namespace weir::backend::cpu {
namespace {

using linear::bf16_by_fma;
using linear::kAvx512VnniFmaKernels;
using linear::kAvx512VnniKernels;
using linear::LinearLayers;
using tensor::info;
using testing::isas;
using testing::make;
using testing::random_floats;
using testing::random_weights;

using testing::kQuantisedForms;

std::vector<DType> all_forms() {
  std::vector<DType> types;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kFloat8}) types.push_back(type);
  for (const DType type : kQuantisedForms) types.push_back(type);
  return types;
}
const std::vector<DType> kAll = all_forms();

float half_at(const std::uint8_t* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, 2);
  return tensor::f32_from_f16(bits);
}

float single_at(const std::uint8_t* at) {
  float value;
  std::memcpy(&value, at, 4);
  return value;
}

void k_scale(const std::uint8_t* s, int j, int* scale, int* min) {
  *scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
  *min = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
}

// Element i of a row, from the description of the format.
float element(DType type, const std::byte* row, std::int64_t i) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row);
  const std::int64_t n = info(type).block_elements;
  const std::uint8_t* b = bytes + i / n * info(type).block_bytes;
  const int e = static_cast<int>(i % n);
  const auto nibble = [&](const std::uint8_t* qs) { return e < 16 ? qs[e] & 15 : qs[e - 16] >> 4; };
  const auto fifth = [&](const std::uint8_t* qh) { return ((qh[e / 8] >> (e % 8)) & 1) << 4; };
  switch (type) {
    case DType::kF32: {
      float value;
      std::memcpy(&value, b, 4);
      return value;
    }
    case DType::kF16:
      return half_at(b);
    case DType::kBF16: {
      std::uint16_t bits;
      std::memcpy(&bits, b, 2);
      return tensor::f32_from_bf16(bits);
    }
    case DType::kQ4_0:
      return half_at(b) * static_cast<float>(nibble(b + 2) - 8);
    case DType::kQ4_1:
      return half_at(b) * static_cast<float>(nibble(b + 4)) + half_at(b + 2);
    case DType::kQ5_0:
      return half_at(b) * static_cast<float>((nibble(b + 6) | fifth(b + 2)) - 16);
    case DType::kQ5_1:
      return half_at(b) * static_cast<float>(nibble(b + 8) | fifth(b + 4)) + half_at(b + 2);
    case DType::kQ8_0:
      return half_at(b) * static_cast<float>(static_cast<std::int8_t>(b[2 + e]));
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const bool five = type == DType::kQ5_K;
      int sc, mn;
      k_scale(b + 4, e / 32, &sc, &mn);
      const std::uint8_t byte = b[(five ? 48 : 16) + e / 64 * 32 + e % 32];
      int q = e / 32 % 2 == 0 ? byte & 15 : byte >> 4;
      if (five) q |= ((b[16 + e % 32] >> (e / 32)) & 1) << 4;
      return half_at(b) * static_cast<float>(sc) * static_cast<float>(q) - half_at(b + 2) * static_cast<float>(mn);
    }
    case DType::kQ6_K: {
      const int half = e / 128, part = e % 128 / 32, l = e % 32;
      const std::uint8_t low = b[64 * half + 32 * (part % 2) + l];
      const int q = (part < 2 ? low & 15 : low >> 4) | ((b[128 + 32 * half + l] >> (2 * part)) & 3) << 4;
      const auto sc = static_cast<std::int8_t>(b[192 + e / 16]);
      return half_at(b + 208) * static_cast<float>(sc) * static_cast<float>(q - 32);
    }
    case DType::kInt4:
    case DType::kInt8: {
      std::int16_t zero;
      std::memcpy(&zero, b + 4, 2);
      return single_at(b) * static_cast<float>((type == DType::kInt4 ? nibble(b + 6) : b[6 + e]) - zero);
    }
    case DType::kFloat8:
      return single_at(b) * tensor::f32_from_e4m3(b[4 + e]);
    default:
      ADD_FAILURE() << info(type).name;
      return 0;
  }
}

std::vector<float> decode(DType type, std::int64_t rows, std::int64_t cols, const std::vector<std::byte>& data) {
  std::vector<float> w(static_cast<std::size_t>(rows * cols));
  if (type > DType::kQ6_K && type <= DType::kIQ1_M) {  // as Embed.GivesTheNumbersOfGgufPy has verified
    const auto backend = make(Isa::kScalar, 1);
    std::vector<TokenId> all(static_cast<std::size_t>(rows));
    for (std::int64_t r = 0; r < rows; ++r) all[static_cast<std::size_t>(r)] = static_cast<TokenId>(r);
    backend->embed(*backend->pack(type, rows, cols, data), all, 1.0f, {w.data(), rows, cols});
    return w;
  }
  const std::int64_t bytes = tensor::row_bytes(type, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < cols; ++k)
      w[static_cast<std::size_t>(r * cols + k)] = element(type, data.data() + r * bytes, k);
  }
  return w;
}

struct Problem {
  DType type;
  std::int64_t rows, cols, tokens;
  std::vector<std::byte> data;
  std::vector<float> x;

  Problem(DType type, std::int64_t rows, std::int64_t cols, std::int64_t tokens, unsigned seed)
      : type(type), rows(rows), cols(cols), tokens(tokens) {
    std::mt19937 rng(seed);
    data = random_weights(type, rows, cols, rng);
    x = random_floats(tokens * cols, rng);
  }
  Matrix<const float> input() const { return {x.data(), tokens, cols}; }
};

std::vector<float> run(Backend& backend, const Problem& p, Matrix<const float> x, const float* norm = nullptr,
                       const float* bias = nullptr, const std::vector<float>* onto = nullptr) {
  const auto weight = backend.pack(p.type, p.rows, p.cols, p.data);
  std::vector<float> y =
      onto != nullptr ? *onto : std::vector<float>(static_cast<std::size_t>(x.rows * p.rows), -77.0f);
  const LinearOutput output = {weight.get(), bias, {y.data(), x.rows, p.rows}, onto != nullptr};
  backend.linear({x, norm, 1e-5f, {&output, 1}});
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The largest difference from sums in double, relative to the length of the summed vectors.
double worst_error(const Problem& p, const std::vector<double>& x, const std::vector<float>& y) {
  const std::vector<float> w = decode(p.type, p.rows, p.cols, p.data);
  double worst = 0;
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    for (std::int64_t r = 0; r < p.rows; ++r) {
      double sum = 0, size = 1e-30;
      const float* weights = w.data() + r * p.cols;
      const double* inputs = x.data() + t * p.cols;
      for (std::int64_t k = 0; k < p.cols; ++k) {
        const double product = double{weights[k]} * inputs[k];
        sum += product;
        size += std::abs(product);
      }
      worst = std::max(worst, std::abs(sum - double{y[static_cast<std::size_t>(t * p.rows + r)]}) / size);
    }
  }
  return worst;
}

std::vector<double> widened(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

// What int8 activations stand for: per 32, amax / 127 times the nearest integers.
std::vector<double> quantised(const std::vector<float>& x) {
  std::vector<double> q(x.size());
  for (std::size_t b = 0; b < x.size(); b += 32) {
    float amax = 0;
    for (std::size_t i = b; i < b + 32; ++i) amax = std::max(amax, std::abs(x[i]));
    const float scale = amax / 127.0f, inverse = amax > 0 ? 127.0f / amax : 0.0f;
    for (std::size_t i = b; i < b + 32; ++i) q[i] = double{scale} * std::nearbyint(x[i] * inverse);
  }
  return q;
}

std::string label(Isa isa, DType type) {
  return std::string(name(isa)) + " " + std::string(info(type).name);
}

const std::int64_t kRowCounts[] = {1, 3, 16, 17, 33};

std::vector<std::int64_t> col_counts(DType type) {
  const std::int64_t unit = info(type).block_elements;
  if (unit == 1) return {1, 2, 7, 32, 33, 300, 515};
  return {unit, 2 * unit, 3 * unit, 5 * unit};
}

TEST(Linear, ExactComputeMatchesDouble) {
  unsigned seed = 1;
  for (const Isa isa : isas()) {
    const auto backend = make(isa, 2, Compute::kExact);
    for (const DType type : kAll) {
      for (const std::int64_t cols : col_counts(type)) {
        for (const std::int64_t rows : kRowCounts) {
          ++seed;
          const Problem p(type, rows, cols, 1 + seed % 15, seed);
          EXPECT_LT(worst_error(p, widened(p.x), run(*backend, p, p.input())), 2e-6)
              << label(isa, type) << " " << rows << "x" << cols;
        }
      }
    }
  }
}

TEST(Linear, QuantisedMatchesDoubleOnQuantisedActivations) {
  unsigned seed = 1000;
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    for (const DType type : kQuantisedForms) {
      for (const std::int64_t cols : col_counts(type)) {
        for (const std::int64_t rows : kRowCounts) {
          ++seed;
          const Problem p(type, rows, cols, 1 + seed % 40, seed);
          EXPECT_LT(worst_error(p, quantised(p.x), run(*backend, p, p.input())), 1e-6)
              << label(isa, type) << " " << rows << "x" << cols;
        }
      }
    }
  }
}

TEST(Linear, FloatWeightsMatchDoubleToTheirPrecision) {
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const std::int64_t cols : {515, 1155}) {
        const Problem p(type, 37, cols, 14, 7);
        // Wide BF16 matrices round the activations to BF16; narrow ones take them as two terms.
        const double bound = type != DType::kBF16 ? 2e-6 : cols < 1024 ? 2e-5 : 4e-3;
        EXPECT_LT(worst_error(p, widened(p.x), run(*backend, p, p.input())), bound) << label(isa, type) << cols;
      }
    }
  }
}

TEST(Linear, EveryIsaGivesTheScalarBits) {
  const auto scalar = make(Isa::kScalar, 1);
  for (const DType type : kQuantisedForms) {
    for (const std::int64_t tokens : {1, 2, 5, 8, 13, 16, 31, 70, 99}) {
      const Problem p(type, 50, 768, tokens, static_cast<unsigned>(tokens));
      const std::vector<float> expected = run(*scalar, p, p.input());
      for (const Isa isa : isas())
        EXPECT_TRUE(same_bits(run(*make(isa), p, p.input()), expected)) << label(isa, type) << " M=" << tokens;
    }
  }
}

// A row's bits do not depend on the rows beside it, their number, its place, or the threads.
TEST(Linear, RowsAreIndependent) {
  for (const Isa isa : isas()) {
    for (std::size_t i = 0; i <= kAll.size(); ++i) {
      const bool wide = i == kAll.size();  // BF16 again, with activations of one term
      const DType type = wide ? DType::kBF16 : kAll[i];
      const Problem p(type, 40, wide ? 1056 : 512, 131, 11);
      const std::vector<float> all = run(*make(isa, 1), p, p.input());
      for (const int threads : {1, 2, 3}) {
        const auto backend = make(isa, threads);
        for (const std::int64_t count :
             {1, 2, 3, 4, 6, 7, 8, 9, 12, 13, 15, 16, 17, 24, 25, 32, 33, 48, 64, 69, 96, 113, 130}) {
          const std::int64_t first = (count * 7) % (p.tokens - count + 1);
          const std::vector<float> some = run(*backend, p, {p.x.data() + first * p.cols, count, p.cols});
          ASSERT_EQ(std::memcmp(some.data(), all.data() + first * p.rows, some.size() * sizeof(float)), 0)
              << label(isa, type) << " rows " << first << "+" << count << ", " << threads << " threads";
        }
      }
    }
  }
}

// Two ways to the same sums: which one is taken may depend on the clock.
TEST(Linear, Bf16ByMultiplyAddsGivesTheInstructionsBits) {
  if (!supported(Isa::kAvx512Vnni) || bf16_by_fma() == 0) GTEST_SKIP() << "multiply-adds are no choice on this CPU";
  const auto backend = make(Isa::kAvx512Vnni);
  ThreadPool pool(2);
  LinearLayers by_instruction(pool, kAvx512VnniKernels, Compute::kAuto);
  LinearLayers by_fma(pool, kAvx512VnniFmaKernels, Compute::kAuto);
  for (const std::int64_t cols : {33, 512, 1056}) {
    const Problem p(DType::kBF16, 139, cols, 29, 3);
    const auto weight = backend->pack(p.type, p.rows, p.cols, p.data);
    for (const std::int64_t tokens : {1, 2, 7, 8, 9, 16, 29}) {
      std::vector<float> ys[2];
      for (const int way : {0, 1}) {
        ys[way].resize(static_cast<std::size_t>(tokens * p.rows));
        const LinearOutput output = {weight.get(), nullptr, {ys[way].data(), tokens, p.rows}, false};
        (way == 0 ? by_instruction : by_fma).linear({{p.x.data(), tokens, p.cols}, nullptr, 0.0f, {&output, 1}});
      }
      EXPECT_TRUE(same_bits(ys[0], ys[1])) << tokens << " rows of " << cols;
    }
  }
}

// More rows than are taken at once, the last block a small one.
TEST(Linear, ManyRowsInBlocksEqualSingleRows) {
  for (const Isa isa : isas()) {
    if (isa == Isa::kScalar) continue;  // minutes
    const auto backend = make(isa);
    for (const DType type : {DType::kQ4_K, DType::kQ8_0, DType::kBF16, DType::kF16}) {
      const Problem p(type, 33, 8192, 203, 5);
      const std::vector<float> all = run(*backend, p, p.input());
      for (const std::int64_t row : {0, 47, 48, 95, 96, 97, 191, 192, 202}) {
        const std::vector<float> one = run(*backend, p, {p.x.data() + row * p.cols, 1, p.cols});
        EXPECT_EQ(std::memcmp(one.data(), all.data() + row * p.rows, one.size() * sizeof(float)), 0)
            << label(isa, type) << row;
      }
    }
  }
}

TEST(Linear, FusedNormBiasAndAccumulateEqualTheSeparateSteps) {
  std::mt19937 rng(3);
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    for (const DType type : {DType::kF32, DType::kBF16, DType::kQ4_0, DType::kQ6_K}) {
      for (const std::int64_t tokens : {1, 3, 20}) {
        const Problem p(type, 35, 256, tokens, 17);
        const std::vector<float> norm = random_floats(p.cols, rng), bias = random_floats(p.rows, rng);
        const std::vector<float> residual = random_floats(tokens * p.rows, rng);
        std::vector<float> normed(p.x.size());
        backend->rms_norm(p.input(), norm.data(), 1e-5f, {normed.data(), tokens, p.cols}, false);
        std::vector<float> expected = run(*backend, p, {normed.data(), tokens, p.cols});
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] = residual[i] + (expected[i] + bias[i % static_cast<std::size_t>(p.rows)]);
        }
        EXPECT_TRUE(same_bits(run(*backend, p, p.input(), norm.data(), bias.data(), &residual), expected))
            << label(isa, type);
      }
    }
  }
}

TEST(Linear, SeveralOutputsOfMixedTypesEqualSingleCalls) {
  const auto backend = make(best_isa());
  for (const std::int64_t tokens : {1, 2, 5, 16, 40}) {
    std::vector<Problem> problems;
    for (const DType type : kAll) problems.emplace_back(type, 20 + static_cast<int>(problems.size()), 512, tokens, 23u);
    std::vector<std::unique_ptr<LinearWeight>> weights;
    std::vector<std::vector<float>> ys;
    std::vector<LinearOutput> outputs;
    for (const Problem& p : problems) {
      weights.push_back(backend->pack(p.type, p.rows, p.cols, p.data));
      ys.emplace_back(static_cast<std::size_t>(tokens * p.rows));
      outputs.push_back({weights.back().get(), nullptr, {ys.back().data(), tokens, p.rows}, false});
    }
    backend->linear({problems[0].input(), nullptr, 0, outputs});
    for (std::size_t i = 0; i < problems.size(); ++i) {
      EXPECT_TRUE(same_bits(ys[i], run(*backend, problems[i], problems[0].input()))) << info(problems[i].type).name;
    }
  }
}

double activate(double g, Activation activation) {
  if (activation == Activation::kSilu) return g / (1 + std::exp(-g));
  return 0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
}

TEST(GatedLinear, EqualsTwoProjectionsAndTheActivation) {
  std::mt19937 rng(31);
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    for (const auto activation : {Activation::kSilu, Activation::kGeluTanh}) {
      for (const std::int64_t tokens : {1, 4, 19}) {
        const Problem gate(DType::kQ5_K, 39, 256, tokens, 41), up(DType::kQ8_0, 39, 256, tokens, 43);
        const std::vector<float> gate_bias = random_floats(39, rng), up_bias = random_floats(39, rng);
        const auto g = run(*backend, gate, gate.input(), nullptr, gate_bias.data());
        const auto u = run(*backend, up, gate.input(), nullptr, up_bias.data());
        const auto gate_weight = backend->pack(gate.type, 39, 256, gate.data),
                   up_weight = backend->pack(up.type, 39, 256, up.data);
        std::vector<float> y(g.size());
        backend->gated_linear({gate.input(),
                               nullptr,
                               0,
                               gate_weight.get(),
                               up_weight.get(),
                               gate_bias.data(),
                               up_bias.data(),
                               activation,
                               {y.data(), tokens, 39}});
        for (std::size_t i = 0; i < y.size(); ++i) {
          const double expected = activate(double{g[i]}, activation) * double{u[i]};
          EXPECT_NEAR(y[i], expected, 1e-6 * std::abs(expected) + 1e-6 * std::abs(u[i]))
              << name(isa) << " gate " << g[i];
        }
      }
    }
  }
}

TEST(GatedLinear, ClampsAsTheCallSays) {
  const std::vector<float> gate_data = {-3.0f, 0.25f, 0.75f, 9.0f, 1.0f}, up_data = {2.0f, -0.25f, -8.0f, 9.0f, 0.5f};
  const std::vector<float> one = {1.0f};
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    const auto gate = backend->pack(DType::kF32, 5, 1, std::as_bytes(std::span(gate_data)));
    const auto up = backend->pack(DType::kF32, 5, 1, std::as_bytes(std::span(up_data)));
    for (const SwigluLimits swiglu : {SwigluLimits(), SwigluLimits{.alpha = 1.1f, .limit = 0.5f}}) {
      std::vector<float> y(5);
      backend->gated_linear({.x = {one.data(), 1, 1},
                             .gate = gate.get(),
                             .up = up.get(),
                             .activation = Activation::kClampedSwiglu,
                             .y = {y.data(), 1, 5},
                             .swiglu = swiglu});
      for (std::size_t i = 0; i < 5; ++i) {
        const double limit = swiglu.limit, g = std::min<double>(gate_data[i], limit);
        const double u = std::clamp<double>(up_data[i], -limit, limit);
        EXPECT_NEAR(y[i], (u + 1) * g / (1 + std::exp(-swiglu.alpha * g)), 1e-5) << name(isa) << " " << i;
      }
    }
  }
}

TEST(GatedLinear, ExtremeGatesStayFinite) {
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    std::vector<float> gate_data = {-1e30f, -200.0f, -88.0f, -20.0f, -0.0f, 20.0f, 88.0f, 200.0f, 1e30f},
                       up_data(9, 1.0f), y(9);
    const std::vector<float> one = {1.0f};
    const auto gate = backend->pack(DType::kF32, 9, 1, std::as_bytes(std::span(gate_data)));
    const auto up = backend->pack(DType::kF32, 9, 1, std::as_bytes(std::span(up_data)));
    for (const auto activation : {Activation::kSilu, Activation::kGeluTanh}) {
      backend->gated_linear(
          {{one.data(), 1, 1}, nullptr, 0, gate.get(), up.get(), nullptr, nullptr, activation, {y.data(), 1, 9}});
      EXPECT_NEAR(y[1], 0.0f, 1e-30f);
      EXPECT_NEAR(y[3], activate(-20, activation), 1e-12);
      for (int i = 5; i < 9; ++i) EXPECT_EQ(y[i], gate_data[i]) << name(isa) << i;
      EXPECT_LE(std::abs(y[0]), 1e-7f);
    }
  }
}

TEST(Linear, NonFiniteNumbersStayInTheirRow) {
  const float bad[] = {INFINITY, -INFINITY, NAN};
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    for (const DType type : kAll) {
      for (const std::int64_t tokens : {3, 20}) {
        Problem p(type, 18, 256, tokens, 3);
        const std::vector<float> clean = run(*backend, p, p.input());
        for (int i = 0; i < 3; ++i) p.x[static_cast<std::size_t>(p.cols + 40 * i)] = bad[i];
        const std::vector<float> y = run(*backend, p, p.input());
        for (std::int64_t t = 0; t < tokens; ++t) {
          for (std::int64_t r = 0; r < p.rows; ++r) {
            const auto at = static_cast<std::size_t>(t * p.rows + r);
            if (t == 1)
              EXPECT_TRUE(std::isnan(y[at])) << label(isa, type);
            else
              EXPECT_EQ(y[at], clean[at]) << label(isa, type);
          }
        }
      }
    }
  }
}

TEST(Linear, NonFiniteScalesDoNotCrash) {
  std::mt19937 rng(9);
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    for (const DType type : kQuantisedForms) {
      for (const std::int64_t tokens : {1, 17}) {
        Problem p(type, 20, 512, tokens, 3);
        for (std::byte& b : p.data) b = static_cast<std::byte>(rng());  // any bytes at all
        run(*backend, p, p.input());
      }
    }
  }
}

TEST(Linear, ZerosAndTinyActivations) {
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    Problem p(DType::kQ4_1, 18, 64, 4, 3);
    std::fill(p.x.begin(), p.x.end(), 0.0f);
    std::fill(p.x.begin() + 64, p.x.begin() + 128, 1e-42f);
    for (const float y : run(*backend, p, p.input())) EXPECT_EQ(y, 0.0f);
  }
}

TEST(Embed, ReturnsTheFilesNumbers) {
  std::mt19937 rng(77);
  for (const DType type : kAll) {
    for (const std::int64_t cols : col_counts(type)) {
      const Problem p(type, 53, cols, 1, 13);
      const auto backend = make(best_isa());
      const auto table = backend->pack(type, p.rows, p.cols, p.data);
      EXPECT_EQ(table->dtype(), type);
      const std::vector<float> w = decode(type, p.rows, p.cols, p.data);
      std::vector<TokenId> ids = {0, 52, 16, 15, 31, 32, 16};
      std::vector<float> out(ids.size() * static_cast<std::size_t>(cols));
      for (const float scale : {1.0f, 1.7f}) {
        backend->embed(*table, ids, scale, {out.data(), static_cast<std::int64_t>(ids.size()), cols});
        for (std::size_t i = 0; i < out.size(); ++i) {
          const auto id = static_cast<std::int64_t>(ids[i / static_cast<std::size_t>(cols)]);
          ASSERT_EQ(out[i], w[static_cast<std::size_t>(id * cols) + i % static_cast<std::size_t>(cols)] * scale)
              << info(type).name;
        }
      }
    }
  }
}

// Blocks and the values that gguf-py's `gguf.quants` has for them (tools/gen_quant_tables.py).
struct QuantValues {
  std::vector<std::byte> blocks;
  std::vector<float> values;
};

QuantValues read_values(DType type) {
  std::ifstream file(WEIR_SOURCE_DIR "/tests/golden/quants/" + std::string(info(type).name) + ".bin", std::ios::binary);
  std::uint32_t bytes = 0;
  file.read(reinterpret_cast<char*>(&bytes), 4);
  QuantValues read;
  read.blocks.resize(bytes);
  file.read(reinterpret_cast<char*>(read.blocks.data()), bytes);
  read.values.resize(bytes / static_cast<std::size_t>(info(type).block_bytes) *
                     static_cast<std::size_t>(info(type).block_elements));
  file.read(reinterpret_cast<char*>(read.values.data()), static_cast<std::streamsize>(4 * read.values.size()));
  EXPECT_TRUE(file.good() && bytes > 0) << info(type).name;
  return read;
}

TEST(Embed, GivesTheNumbersOfGgufPy) {
  int types = 0;
  for (int i = 0; i <= static_cast<int>(DType::kIQ1_M); ++i) {
    const auto type = static_cast<DType>(i);
    if (!tensor::is_quantised(type)) continue;
    ++types;
    const QuantValues expected = read_values(type);
    for (const std::int64_t rows : {1, 2}) {
      const auto cols = static_cast<std::int64_t>(expected.values.size()) / rows;
      for (const Isa isa : isas()) {
        const auto backend = make(isa);
        const auto weight = backend->pack(type, rows, cols, expected.blocks);
        std::vector<float> rows_of(expected.values.size());
        const std::vector<TokenId> ids = rows == 1 ? std::vector<TokenId>{0} : std::vector<TokenId>{0, 1};
        backend->embed(*weight, ids, 1.0f, {rows_of.data(), rows, cols});
        ASSERT_EQ(rows_of, expected.values) << label(isa, type);
        // The kernels' own decoding, seen through activations that pick one input each.
        const auto exact = make(isa, 1, Compute::kExact);
        const std::int64_t picked = std::min<std::int64_t>(cols, 64);
        std::vector<float> x(static_cast<std::size_t>(picked * cols)), y(static_cast<std::size_t>(picked * rows));
        for (std::int64_t k = 0; k < picked; ++k) x[static_cast<std::size_t>(k * cols + k * (cols / picked))] = 1;
        const auto exact_weight = exact->pack(type, rows, cols, expected.blocks);
        const LinearOutput output = {exact_weight.get(), nullptr, {y.data(), picked, rows}, false};
        exact->linear({{x.data(), picked, cols}, nullptr, 0, {&output, 1}});
        for (std::int64_t k = 0; k < picked; ++k) {
          for (std::int64_t r = 0; r < rows; ++r)
            ASSERT_EQ(y[static_cast<std::size_t>(k * rows + r)],
                      expected.values[static_cast<std::size_t>(r * cols + k * (cols / picked))])
                << label(isa, type);
        }
      }
    }
  }
  EXPECT_EQ(types, 23);
}

// The IQ types below four bits are indices into grids in the file and codes in memory.
double allowed_growth(DType type) {
  switch (type) {
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ1_M:
    case DType::kIQ1_S:
      return 2.35;
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kTQ1_0:
      return 1.45;
    case DType::kTQ2_0:
    case DType::kMXFP4:
    case DType::kNVFP4:
    case DType::kQ3_K:
    case DType::kIQ4_XS:
      return 1.13;
    default:
      return 1.04;
  }
}

TEST(Pack, TakesAboutTheFilesSize) {
  const auto backend = make(best_isa(), 1);
  for (int i = 0; i <= static_cast<int>(DType::kIQ1_M); ++i) {
    const auto type = static_cast<DType>(i);
    if (type == DType::kI32) continue;
    const Problem p(type, 64, 2048, 1, 1);
    const auto weight = backend->pack(type, p.rows, p.cols, p.data);
    EXPECT_LE(static_cast<double>(weight->bytes()), allowed_growth(type) * static_cast<double>(p.data.size()))
        << info(type).name;
  }
}

TEST(RmsNorm, MatchesDoubleAndItselfInPlace) {
  std::mt19937 rng(5);
  for (const Isa isa : isas()) {
    const auto backend = make(isa);
    for (const std::int64_t cols : {1, 15, 16, 17, 576, 1000}) {
      const std::vector<float> x = random_floats(3 * cols, rng), weight = random_floats(cols, rng);
      std::vector<float> out(x.size()), onto(x.size(), 2.0f), in_place = x;
      backend->rms_norm({x.data(), 3, cols}, weight.data(), 1e-6f, {out.data(), 3, cols}, false);
      backend->rms_norm({x.data(), 3, cols}, weight.data(), 1e-6f, {onto.data(), 3, cols}, true);
      backend->rms_norm({in_place.data(), 3, cols}, weight.data(), 1e-6f, {in_place.data(), 3, cols}, false);
      EXPECT_TRUE(same_bits(out, in_place));
      for (std::int64_t t = 0; t < 3; ++t) {
        double sum = 0;
        for (std::int64_t k = 0; k < cols; ++k) sum += std::pow(double{x[static_cast<std::size_t>(t * cols + k)]}, 2);
        for (std::int64_t k = 0; k < cols; ++k) {
          const auto at = static_cast<std::size_t>(t * cols + k);
          const double expected = double{x[at]} / std::sqrt(sum / static_cast<double>(cols) + 1e-6) *
                                  double{weight[static_cast<std::size_t>(k)]};
          EXPECT_NEAR(out[at], expected, 1e-6 * std::abs(expected) + 1e-9);
          EXPECT_EQ(onto[at], 2.0f + out[at]);
        }
      }
    }
  }
}

TEST(CpuBackend, RefusesWhatItCannotDo) {
  EXPECT_FALSE(make_cpu_backend({.threads = -1, .isa = {}, .compute = Compute::kAuto}).has_value());
  EXPECT_FALSE(make_cpu_backend({.threads = 1025, .isa = {}, .compute = Compute::kAuto}).has_value());
  for (const Isa isa : isas()) EXPECT_EQ(parse_isa(name(isa)), isa);
  EXPECT_EQ(parse_isa("avx512vnni"), Isa::kAvx512Vnni);
  EXPECT_EQ(parse_isa("avx2vnni"), Isa::kAvx2Vnni);
  for (const char* unknown : {"sse9", "", "-", "avx", "avx2-", "avx-2", "avx512-vnn", "avx2--vnni", "amx-"})
    EXPECT_FALSE(parse_isa(unknown).has_value()) << unknown;
}

TEST(CpuBackend, AllocatesZeroedAlignedMemory) {
  const auto backend = make(best_isa());
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{5} << 20}) {
    const auto buffer = backend->allocate(bytes);
    ASSERT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0u);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(buffer->data()[i], std::byte{0});
  }
}

}  // namespace
}  // namespace weir::backend::cpu
