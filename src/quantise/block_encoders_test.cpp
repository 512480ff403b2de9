#include "quantise/block_encoders.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "quantise/type_mix.h"

namespace weir::quantise {
namespace {

using tensor::DType;

// Sums of four uniform numbers about zero, cubed for heavy tails; the same as in tools/gen_quantise_errors.py.
std::vector<float> numbers(std::size_t count, bool tails) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    double sum = -2;
    for (std::uint64_t k = 4 * i + 1; k <= 4 * i + 4; ++k) {
      std::uint64_t z = k * 0x9E3779B97F4A7C15u;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      z ^= z >> 31;
      sum += static_cast<double>(z >> 40) / (1 << 24);
    }
    x[i] = static_cast<float>(0.05 * (tails ? sum * sum * sum : sum));
  }
  return x;
}

std::vector<float> round_trip(DType type, const std::vector<float>& x, std::int64_t rows) {
  const auto columns = static_cast<std::int64_t>(x.size()) / rows;
  const auto row_bytes = static_cast<std::size_t>(tensor::row_bytes(type, columns));
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * row_bytes);
  for (std::int64_t r = 0; r < rows; ++r) {
    encode_row(type, std::span(x).subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns)),
               bytes.data() + static_cast<std::size_t>(r) * row_bytes);
  }
  const auto backend = backend::cpu::make_cpu_backend({.threads = 1, .isa = {}, .compute = {}}).value();
  const auto packed = backend->pack(type, rows, columns, bytes);
  std::vector<TokenId> ids(static_cast<std::size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> y(x.size());
  backend->embed(*packed, ids, 1.0f, {y.data(), rows, columns});
  return y;
}

double relative_error(const std::vector<float>& x, const std::vector<float>& y) {
  double off = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    off += std::pow(double{x[i]} - double{y[i]}, 2);
    size += std::pow(double{x[i]}, 2);
  }
  return std::sqrt(off / size);
}

// Written by tools/gen_quantise_errors.py.
struct LlamaError {
  DType type;
  bool tails;
  double error;
};
constexpr LlamaError kLlamaErrors[] = {
    {DType::kQ4_0, false, 0.081840}, {DType::kQ4_1, false, 0.075859}, {DType::kQ5_0, false, 0.040530},
    {DType::kQ5_1, false, 0.036633}, {DType::kQ8_0, false, 0.005090}, {DType::kQ2_K, false, 0.287307},
    {DType::kQ3_K, false, 0.146322}, {DType::kQ4_K, false, 0.068936}, {DType::kQ5_K, false, 0.034881},
    {DType::kQ6_K, false, 0.017069}, {DType::kQ4_0, true, 0.108477},  {DType::kQ4_1, true, 0.111267},
    {DType::kQ5_0, true, 0.058124},  {DType::kQ5_1, true, 0.053747},  {DType::kQ8_0, true, 0.008148},
    {DType::kQ2_K, true, 0.405511},  {DType::kQ3_K, true, 0.157961},  {DType::kQ4_K, true, 0.089891},
    {DType::kQ5_K, true, 0.049128},  {DType::kQ6_K, true, 0.023765},
};

TEST(BlockEncoders, AreNoFurtherFromTheNumbersThanLlamaCpp) {
  for (const auto& [type, tails, error] : kLlamaErrors) {
    const auto x = numbers(256 * 256, tails);
    EXPECT_LE(relative_error(x, round_trip(type, x, 256)), 1.0001 * error) << tensor::info(type).name << tails;
  }
}

constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K,
                            DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kMXFP4};

TEST(BlockEncoders, KeepWhatTheyHaveWritten) {
  for (const DType type : kTypes) {
    const auto once = round_trip(type, numbers(2048, false), 2);
    const auto twice = round_trip(type, once, 2);
    EXPECT_LT(relative_error(once, twice), type == DType::kQ2_K ? 0.05 : 0.01) << tensor::info(type).name;
  }
}

TEST(BlockEncoders, TakeZerosConstantsTinyAndHugeNumbers) {
  for (const DType type : kTypes) {
    EXPECT_EQ(round_trip(type, std::vector<float>(256, 0.0f), 1), std::vector<float>(256, 0.0f))
        << tensor::info(type).name;
    for (const float value : {1.0f, -0.37f, 1000.0f}) {
      const std::vector<float> x(256, value);
      EXPECT_LT(relative_error(x, round_trip(type, x, 1)), type == DType::kMXFP4 ? 0.2 : 0.01)
          << tensor::info(type).name << value;
    }
    for (const float size : {1e-44f, 1e-30f, 1e-6f, 1e6f, 1e30f, 3e38f}) {
      std::vector<float> x = numbers(512, false);
      for (float& value : x) value *= 10 * size;
      for (float& value : x) value = std::isfinite(value) ? value : size;
      for (const float value : round_trip(type, x, 1)) EXPECT_TRUE(std::isfinite(value)) << tensor::info(type).name;
    }
    std::vector<float> outlier = numbers(256, false);
    outlier[77] = 50;
    EXPECT_NEAR(round_trip(type, outlier, 1)[77], 50, type == DType::kMXFP4 ? 8 : 1) << tensor::info(type).name;
  }
}

TEST(TypeMix, KnowsTheKindsOfFiles) {
  EXPECT_EQ(find_kind("q4_k_m")->base, DType::kQ4_K);
  EXPECT_EQ(find_kind("Q4_K")->name, "Q4_K_M");
  EXPECT_EQ(find_kind("Q9_K"), nullptr);
  EXPECT_EQ(find_kind(""), nullptr);
  const auto type_of = [](const char* kind, const char* name, std::vector<std::int64_t> shape, bool tied = false) {
    return type_for(*find_kind(kind),
                    {.name = name, .shape = std::move(shape), .layers = 32, .queries_per_kv_head = 4, .tied = tied});
  };
  EXPECT_EQ(type_of("Q4_K_M", "blk.0.attn_norm.weight", {4096}), DType::kF32);
  EXPECT_EQ(type_of("Q4_K_M", "blk.0.ffn_gate_inp.weight", {8, 4096}), DType::kF32);
  EXPECT_EQ(type_of("Q4_K_M", "blk.0.attn_q.weight", {4096, 4096}), DType::kQ4_K);
  EXPECT_EQ(type_of("Q4_K_M", "blk.0.attn_v.weight", {1024, 4096}), DType::kQ6_K);
  EXPECT_EQ(type_of("Q4_K_M", "blk.5.attn_v.weight", {1024, 4096}), DType::kQ4_K);
  EXPECT_EQ(type_of("Q4_K_M", "blk.31.ffn_down.weight", {4096, 14336}), DType::kQ6_K);
  EXPECT_EQ(type_of("Q4_K_M", "output.weight", {128256, 4096}), DType::kQ6_K);
  EXPECT_EQ(type_of("Q4_K_M", "token_embd.weight", {128256, 4096}), DType::kQ4_K);
  EXPECT_EQ(type_of("Q4_K_M", "token_embd.weight", {128256, 4096}, true), DType::kQ6_K);
  EXPECT_EQ(type_of("Q4_K_M", "blk.0.attn_q.weight", {576, 576}), DType::kQ5_0);
  EXPECT_EQ(type_of("Q4_K_M", "blk.0.attn_q.weight", {576, 100}), DType::kF16);
  EXPECT_EQ(type_of("Q6_K", "blk.0.attn_q.weight", {64, 96}), DType::kQ8_0);
  EXPECT_EQ(type_of("Q2_K", "blk.0.attn_v.weight", {1024, 4096}), DType::kQ4_K);
  EXPECT_EQ(type_of("MXFP4", "blk.0.ffn_up_exps.weight", {32, 2880, 2880}), DType::kMXFP4);
  EXPECT_EQ(type_of("MXFP4", "blk.0.attn_q.weight", {4096, 2880}), DType::kQ8_0);
  EXPECT_EQ(type_of("F16", "output.weight", {100, 7}), DType::kF16);
}

}  // namespace
}  // namespace weir::quantise
