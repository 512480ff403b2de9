// Mixtures of experts against the same sums put together from single linear layers, one token and one expert at a time:
// equal to the last bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/cpu/linear/testing.h"

namespace weir::backend::cpu {
namespace {

using std::int64_t;
using testing::isas;
using testing::make;
using testing::random_floats;
using testing::random_weights;

struct Projection {
  std::vector<std::unique_ptr<LinearWeight>> owned;
  std::vector<const LinearWeight*> weights;
  std::vector<float> bias;

  Projection(Backend& backend, DType type, int experts, int64_t rows, int64_t cols, bool biased, std::mt19937& rng) {
    for (int e = 0; e < experts; ++e) {
      owned.push_back(backend.pack(type, rows, cols, random_weights(type, rows, cols, rng)));
      weights.push_back(owned.back().get());
    }
    if (biased) bias = random_floats(experts * rows, rng);
  }
  ExpertWeights view() const { return {weights, bias.empty() ? nullptr : bias.data()}; }
  const float* bias_of(int expert) const { return bias.empty() ? nullptr : bias.data() + expert * weights[0]->rows(); }
};

struct Mixture {
  Projection gate, up, down;
  int experts;
  int64_t cols;
  std::vector<float> norm;
  Activation activation;

  Mixture(Backend& backend, DType type, int experts, int64_t cols, int64_t inner, bool biased, std::mt19937& rng)
      : gate(backend, type, experts, inner, cols, biased, rng),
        up(backend, type, experts, inner, cols, biased, rng),
        down(backend, type, experts, cols, inner, biased, rng),
        experts(experts),
        cols(cols),
        norm(random_floats(cols, rng)),
        activation(biased ? Activation::kClampedSwiglu : Activation::kSilu) {}

  void run(Backend& backend, const std::vector<float>& x, const std::vector<std::int32_t>& chosen,
           const std::vector<float>& weights, int per_token, std::vector<float>& y, bool accumulate) const {
    const int64_t tokens = static_cast<int64_t>(x.size()) / cols;
    backend.experts({.x = {x.data(), tokens, cols},
                     .norm_weight = norm.data(),
                     .norm_eps = 1e-5f,
                     .experts = {chosen.data(), tokens, per_token},
                     .weights = {weights.data(), tokens, per_token},
                     .gate = gate.view(),
                     .up = up.view(),
                     .down = down.view(),
                     .activation = activation,
                     .y = {y.data(), tokens, cols},
                     .accumulate = accumulate});
  }

  // The definition, by single rows.
  std::vector<float> one_by_one(Backend& backend, const std::vector<float>& x, const std::vector<std::int32_t>& chosen,
                                const std::vector<float>& weights, int per_token, std::vector<float> y) const {
    const int64_t tokens = static_cast<int64_t>(x.size()) / cols, inner_cols = gate.weights[0]->rows();
    std::vector<float> inner(static_cast<std::size_t>(inner_cols)), out(static_cast<std::size_t>(cols));
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<int> order(static_cast<std::size_t>(per_token));
      std::iota(order.begin(), order.end(), 0);
      const auto at = [&](int j) { return static_cast<std::size_t>(t * per_token + j); };
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return chosen[at(a)] < chosen[at(b)]; });
      for (const int j : order) {
        const std::int32_t e = chosen[at(j)];
        if (e < 0) continue;
        const auto i = static_cast<std::size_t>(e);
        backend.gated_linear({.x = {x.data() + t * cols, 1, cols},
                              .norm_weight = norm.data(),
                              .norm_eps = 1e-5f,
                              .gate = gate.weights[i],
                              .up = up.weights[i],
                              .gate_bias = gate.bias_of(e),
                              .up_bias = up.bias_of(e),
                              .activation = activation,
                              .y = {inner.data(), 1, inner_cols}});
        const LinearOutput output = {down.weights[i], down.bias_of(e), {out.data(), 1, cols}, false};
        backend.linear({.x = {inner.data(), 1, inner_cols}, .outputs = {&output, 1}});
        for (int64_t c = 0; c < cols; ++c)
          y[static_cast<std::size_t>(t * cols + c)] += weights[at(j)] * out[static_cast<std::size_t>(c)];
      }
    }
    return y;
  }
};

class ExpertsTest : public ::testing::TestWithParam<DType> {};

TEST_P(ExpertsTest, equals_single_rows_to_the_bit) {
  std::mt19937 rng(7);
  const DType type = GetParam();
  const int64_t unit = tensor::info(type).block_elements;
  const int64_t cols = unit == 1 ? 45 : unit * (unit == 32 ? 3 : 1), inner = unit == 1 ? 23 : unit;
  for (const Isa isa : isas()) {
    for (const int threads : {1, 3}) {
      const auto backend = make(isa, threads);
      const int experts = 5, per_token = 3;
      const Mixture mixture(*backend, type, experts, cols, inner, threads == 3, rng);
      for (const int64_t tokens : {1, 2, 7, 33, 100}) {
        const auto x = random_floats(tokens * cols, rng), weights = random_floats(tokens * per_token, rng),
                   before = random_floats(tokens * cols, rng);
        std::vector<std::int32_t> chosen(static_cast<std::size_t>(tokens * per_token));
        // Expert 3 gets nothing, expert 0 most; some places stay empty.
        for (auto& e : chosen) e = rng() % 2 ? 0 : static_cast<std::int32_t>(std::array{-1, 1, 2, 4}[rng() % 4]);
        auto y = before;
        mixture.run(*backend, x, chosen, weights, per_token, y, true);
        EXPECT_EQ(y, mixture.one_by_one(*backend, x, chosen, weights, per_token, before))
            << name(isa) << ", " << threads << " threads, " << tokens << " tokens";
        mixture.run(*backend, x, chosen, weights, per_token, y, false);
        EXPECT_EQ(y, mixture.one_by_one(*backend, x, chosen, weights, per_token, std::vector<float>(x.size())));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ExpertsTest,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ8_0,
                                           DType::kQ5_1, DType::kQ4_K, DType::kQ6_K),
                         [](const auto& info) { return std::string(tensor::info(info.param).name); });

// More pairs than a wave holds, and one expert with more rows than are multiplied at once.
TEST(Experts, many_tokens_take_several_waves) {
  std::mt19937 rng(8);
  const auto backend = make(isas().back());
  const int per_token = 2;
  const int64_t cols = 64, tokens = 1500;
  const Mixture mixture(*backend, DType::kQ8_0, 4, cols, 32, false, rng);
  const auto x = random_floats(tokens * cols, rng), weights = random_floats(tokens * per_token, rng);
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(tokens * per_token));
  for (auto& e : chosen) e = static_cast<std::int32_t>(rng() % 3 == 0 ? rng() % 4 : 2);
  std::vector<float> y(x.size());
  mixture.run(*backend, x, chosen, weights, per_token, y, false);
  EXPECT_EQ(y, mixture.one_by_one(*backend, x, chosen, weights, per_token, std::vector<float>(x.size())));
}

}  // namespace
}  // namespace weir::backend::cpu
