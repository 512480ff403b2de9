#include "plan/operators.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::plan {
namespace {

ModelCard card(const char* name) {
  auto found = read_model_card(name);
  EXPECT_TRUE(found.has_value()) << (found ? "" : found.error().message);
  return *found;
}

StepShape decode_step(std::int64_t sequences, std::int64_t context) {
  StepShape shape;
  for (std::int64_t i = 0; i < sequences; ++i) shape.add(context - 1, context, true);
  return shape;
}

OperatorOptions as_card(const ModelCard& model, ParallelLayout layout = {}) {
  return {.layout = layout, .types = model.types};
}

// The well-known figure: two operations per parameter that a token meets, two bytes read of each.
TEST(Operators, DecodingReadsEveryWeightOnceAndDoesTwoOperationsOnIt) {
  for (const char* name : {"Llama-3.3-70B", "Qwen3-8B", "Gemma-3-12B", "Phi-4", "SmolLM2-135M"}) {
    const ModelCard model = card(name);
    const auto totals = totals_of(operators_of(model, decode_step(1, 1), as_card(model)));
    EXPECT_NEAR(totals.flops / (2 * model.active_parameters()), 1, 0.002) << name;
    EXPECT_NEAR(totals.weight_bytes / (2 * model.active_parameters()), 1, 0.002) << name;
  }
  // Of experts only those of the one token. Latents' kv_b is applied to the query as a whole.
  for (const char* name : {"Qwen3-30B-A3B", "Mixtral-8x7B", "GLM-4.5", "DeepSeek-R1", "Qwen3-Next-80B-A3B"}) {
    const ModelCard model = card(name);
    const auto totals = totals_of(operators_of(model, decode_step(1, 1), as_card(model)));
    EXPECT_NEAR(totals.flops / (2 * model.active_parameters()), 1, 0.02) << name;
  }
}

TEST(Operators, AttentionReadsTheKvOfEverySequence) {
  const ModelCard model = card("Llama-3.1-8B");
  const auto totals = totals_of(operators_of(model, decode_step(7, 1000), as_card(model)));
  EXPECT_NEAR(totals.kv_bytes, 7 * 1001 * 131072.0, 1);  // what is read and the row that is written
  const ModelCard latent = card("DeepSeek-V3");
  EXPECT_NEAR(totals_of(operators_of(latent, decode_step(3, 500), as_card(latent))).kv_bytes, 3 * 501 * 70272.0, 1);
}

TEST(Operators, DevicesOfATensorGroupShareTheWork) {
  const ModelCard model = card("Llama-3.3-70B");
  const auto one = totals_of(operators_of(model, decode_step(8, 100), as_card(model)));
  for (const int tp : {2, 4, 8}) {
    const auto part = totals_of(operators_of(model, decode_step(8, 100), as_card(model, {.tp = tp})));
    EXPECT_NEAR(part.weight_bytes * tp / one.weight_bytes, 1, 1e-9) << tp;
    EXPECT_NEAR(part.kv_bytes * tp / one.kv_bytes, 1, 1e-9) << tp;
    EXPECT_NEAR(part.flops * tp / one.flops, 1, 1e-9) << tp;
    // Two sums of 16-bit hidden states a layer.
    EXPECT_EQ(part.message_bytes, 80 * 2 * 8 * 8192 * 2.0);
  }
  // 8 KV heads on 16 devices: each keeps one, twice as much in all.
  const auto wide = totals_of(operators_of(model, decode_step(8, 100), as_card(model, {.tp = 16})));
  EXPECT_NEAR(wide.kv_bytes * 8 / one.kv_bytes, 1, 1e-9);
}

TEST(Operators, ExpertsAreSpreadOverAllDevicesOfAStage) {
  const ModelCard model = card("DeepSeek-V3");
  const auto shape = decode_step(256, 1000);
  const auto experts = [&](ParallelLayout layout) {
    double bytes = 0, flops = 0;
    for (const Operator& one : operators_of(model, shape, as_card(model, layout))) {
      if (one.kind != OperatorKind::kGroupedGemm) continue;
      bytes += one.repeats * one.weight_bytes;
      flops += one.repeats * one.flops;
    }
    return std::pair(bytes, flops);
  };
  const auto whole = experts({});
  for (const ParallelLayout layout : {ParallelLayout{.tp = 8}, ParallelLayout{.tp = 8, .ep = 8},
                                      ParallelLayout{.dp = 8, .ep = 8}, ParallelLayout{.tp = 2, .dp = 4, .ep = 4}}) {
    const auto part = experts(layout);
    EXPECT_NEAR(part.first * 8 / whole.first, 1, 1e-9) << layout.name();
    EXPECT_NEAR(part.second * 8 / whole.second, 1, 1e-9) << layout.name();
  }
}

TEST(Operators, WindowsBoundWhatIsSeen) {
  const ModelCard model = card("gpt-oss-120b");
  const auto totals = totals_of(operators_of(model, decode_step(1, 10000), as_card(model)));
  // 18 layers see everything, 18 see 128 tokens; 8 heads of 64, keys and values of 16 bits.
  EXPECT_NEAR(totals.kv_bytes, 18.0 * (10001 + 129) * 2 * 8 * 64 * 2, 1);
  // A prefill of n rows under a window: brute force.
  StepShape shape;
  shape.add(0, 1000, true);
  double pairs = 0;
  for (int i = 1; i <= 1000; ++i) pairs += std::min(i, 128);
  double found = 0;
  for (const Operator& one : operators_of(model, shape, as_card(model))) {
    if (one.kind == OperatorKind::kPrefillAttention && one.attended < 400000) found = one.attended;
  }
  EXPECT_NEAR(found, pairs, 1e-6);
}

TEST(Operators, PrefillPairsAreCausal) {
  const ModelCard model = card("Llama-2-7B");
  StepShape shape;
  shape.add(96, 160, true);
  double pairs = 0;
  for (int i = 97; i <= 160; ++i) pairs += i;
  double flops = 0;
  for (const Operator& one : operators_of(model, shape, as_card(model))) {
    if (one.kind == OperatorKind::kPrefillAttention) flops += one.repeats * one.flops;
  }
  EXPECT_NEAR(flops, 32 * pairs * 4 * 4096, 1);
}

TEST(Operators, AStepOfBothKindsIsTheSumOfBothExceptForWeights) {
  const ModelCard model = card("Qwen3-32B");
  StepShape both = decode_step(5, 700), prefill;
  both.add(100, 400, true);
  prefill.add(100, 400, true);
  const auto all = totals_of(operators_of(model, both, as_card(model)));
  const auto first = totals_of(operators_of(model, decode_step(5, 700), as_card(model)));
  const auto second = totals_of(operators_of(model, prefill, as_card(model)));
  EXPECT_NEAR(all.flops, first.flops + second.flops, 1e-6 * all.flops);
  EXPECT_NEAR(all.kv_bytes, first.kv_bytes + second.kv_bytes, 1e-6 * all.kv_bytes);
  EXPECT_NEAR(all.weight_bytes, first.weight_bytes, 1e-6 * all.weight_bytes);
}

TEST(Operators, AnEmptyStepIsNothing) {
  EXPECT_TRUE(operators_of(card("Qwen3-8B"), {}, {}).empty());
}

TEST(Operators, DistinctExpertsAreTheMeanOfDraws) {
  EXPECT_NEAR(distinct_experts(256, 8, 1), 8, 1e-9);
  EXPECT_NEAR(distinct_experts(256, 8, 1e6), 256, 1e-9);
  EXPECT_NEAR(distinct_experts(4, 1, 2), 1.75, 1e-9);  // 1/4 the same, 3/4 two
}

TEST(Operators, TheRidgeIsPeakOverBandwidth) {
  const auto h100 = find_hardware("H100");
  EXPECT_NEAR(ridge_intensity(*h100, 16), 989e12 / 3.35e12, 1e-9);
  const auto b200 = find_hardware("B200");
  EXPECT_NEAR(ridge_intensity(*b200, 4) / ridge_intensity(*b200, 16), 4, 1e-9);
}

}  // namespace
}  // namespace weir::plan
