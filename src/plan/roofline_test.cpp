#include "plan/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::plan {
namespace {

using testing::HasSubstr;

Result<RooflineResult> run(RooflineQuery query) {
  return roofline(query);
}

// 70B in BF16: 140 GB over 3.35 TB/s are 42 ms, 24 tokens/s; over 2.0 TB/s 14.3 tokens/s.
TEST(Roofline, DecodingALargeModelTakesItsWeightsOverTheBandwidth) {
  const auto h100 = run({.subject = {.model = "Llama-3.3-70B", .hardware = "H100"}, .context = 1});
  ASSERT_TRUE(h100.has_value()) << h100.error().message;
  const auto& decode = h100->report.json["decode"];
  EXPECT_NEAR(decode["all_weights_s"].get<double>(), 0.042, 0.0005);
  EXPECT_NEAR(decode["weights_s"].get<double>(), 0.0415, 0.0005);
  EXPECT_NEAR(decode["tokens_per_s"].get<double>(), 24, 0.3);
  EXPECT_EQ(decode["bound"], "memory");
  const auto slow = run({.subject = {.model = "Llama-3.3-70B", .hardware = "H100,mem_bw_gbs=2000"}, .context = 1});
  EXPECT_NEAR(slow->report.json["decode"]["tokens_per_s"].get<double>(), 14.3, 0.15);
}

TEST(Roofline, AMostlyCachedPromptIsBoundByMemory) {
  const auto found = run({.subject = {.model = "Llama-3.3-70B", .hardware = "H100"}, .prompt = 4096, .cached = 0.95});
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(found->report.json["prefill"]["suffix"], 205);
  EXPECT_EQ(found->report.json["prefill"]["bound"], "memory");
  for (const auto& row : found->report.json["cached_fractions"]) {
    const double cached = row["cached"].get<double>();
    EXPECT_EQ(row["bound"], cached >= 0.95 ? "memory" : "compute") << cached;
    // Where the answer turns: one token more is bound by arithmetic.
    const auto turn = row["memory_bound_up_to_suffix"].get<std::int64_t>();
    EXPECT_GT(turn, 200);
    EXPECT_LT(turn, 500);
  }
}

TEST(Roofline, TheTurningSuffixIsWhereArithmeticEqualsMemory) {
  const auto card = *read_model_card("Qwen3-32B");
  const auto hardware = *find_hardware("H200");
  const OperatorOptions options{.types = card.types};
  for (const double cached : {0.0, 0.5, 0.95}) {
    const auto turn = memory_bound_suffix(card, hardware, options, cached, 40000);
    const auto at = [&](std::int64_t suffix) {
      const auto prefix = static_cast<std::int64_t>(static_cast<double>(suffix) * cached / (1 - cached));
      return bound_of(operators_of(card, prefill_shape(prefix, suffix), options), hardware).memory_bound();
    };
    EXPECT_TRUE(at(turn)) << cached;
    EXPECT_FALSE(at(turn + 1)) << cached;
  }
}

TEST(Roofline, AFloorIsNeverBelowItsParts) {
  const auto card = *read_model_card("DeepSeek-V3");
  const auto hardware = *find_hardware("H200");
  const OperatorOptions options{.layout = {.tp = 8, .ep = 8}, .types = card.types};
  double before = 0;
  for (const std::int64_t batch : {1, 4, 16, 64, 256}) {
    const auto bound = bound_of(operators_of(card, decode_shape(batch, 4096), options), hardware);
    EXPECT_GE(bound.step_s, std::max(bound.compute_s, bound.memory_s));
    EXPECT_GT(bound.step_s, before);
    before = bound.step_s;
    EXPECT_DOUBLE_EQ(RooflineStep(card, hardware, options).step_s(decode_shape(batch, 4096)), bound.step_s);
  }
}

TEST(Roofline, ThePictureHasAPointForEachOperatorAndEscapesNames) {
  const auto found =
      run({.subject = {.model = "Qwen3-8B", .hardware = "a<b,bf16_dense_tflops=100,mem_gb=80,mem_bw_gbs=1000"}});
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_THAT(found->svg, HasSubstr("a&lt;b"));
  EXPECT_THAT(found->svg, HasSubstr("attn_qkv"));
  EXPECT_THAT(found->svg, HasSubstr("</svg>"));
  EXPECT_EQ(found->svg.find("nan"), std::string::npos);
}

TEST(Roofline, TypesWithoutArithmeticOfTheirOwnComputeIn16Bits) {
  const auto compute_s = [](const char* hardware, const char* weights) {
    const auto found = run({.subject = {.model = "Llama-3.1-8B", .hardware = hardware, .weights = weights}});
    return found->report.json["prefill"]["compute_s"].get<double>();
  };
  EXPECT_NEAR(compute_s("A100", "fp8"), compute_s("A100", "bf16"), 1e-9);
  EXPECT_NEAR(compute_s("A100", "nvfp4"), compute_s("A100", "bf16"), 1e-9);
  EXPECT_LT(compute_s("A100", "int8"), 0.6 * compute_s("A100", "bf16"));
  EXPECT_LT(compute_s("H100", "fp8"), 0.6 * compute_s("H100", "bf16"));
  EXPECT_NEAR(compute_s("H100", "nvfp4"), compute_s("H100", "bf16"), 1e-9);
  EXPECT_LT(compute_s("B200", "nvfp4"), 0.4 * compute_s("B200", "bf16"));
}

TEST(Roofline, BadQueriesAreRefused) {
  for (const RooflineQuery& query :
       {RooflineQuery{.subject = {.model = "Qwen3-8B"}},
        RooflineQuery{.subject = {.model = "Qwen3-8B", .hardware = "H100"}, .batch = 0},
        RooflineQuery{.subject = {.model = "Qwen3-8B", .hardware = "H100"}, .cached = 1},
        RooflineQuery{.subject = {.model = "Qwen3-8B", .hardware = "H100"}, .context = 1LL << 60},
        RooflineQuery{.subject = {.model = "Qwen3-8B", .hardware = "H100", .layout = {.tp = 7}}}}) {
    EXPECT_FALSE(run(query).has_value());
  }
}

}  // namespace
}  // namespace weir::plan
