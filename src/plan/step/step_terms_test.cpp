// The terms of a step count what operators.h counts, operator by operator: who changes one must change the other.
#include "plan/step/step_terms.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/operators.h"

namespace weir::plan {
namespace {

struct Sums {
  double dense_weights = 0, expert_weights = 0, kv = 0;                        // bytes
  double products = 0, head = 0, prefill_attention = 0, decode_attention = 0;  // operations
};

Sums sums_of(const ModelCard& card, const StepShape& shape, const ParallelLayout& layout) {
  Sums sums;
  for (const Operator& one : operators_of(card, shape, {.layout = layout, .types = card.types})) {
    const double times = one.repeats;
    (one.kind == OperatorKind::kGroupedGemm ? sums.expert_weights : sums.dense_weights) += times * one.weight_bytes;
    if (one.kind == OperatorKind::kPrefillAttention) sums.prefill_attention += times * one.flops;
    if (one.kind == OperatorKind::kDecodeAttention) {
      sums.decode_attention += times * one.flops;
      sums.kv += times * one.kv_bytes;
    }
    if (one.kind == OperatorKind::kGemm || one.kind == OperatorKind::kGroupedGemm)
      (one.name == "head" ? sums.head : sums.products) += times * one.flops;
  }
  return sums;
}

// Terms with coefficient 1 back in bytes and operations. Types of 16 bits: nothing is lost to narrow ones.
class Terms {
 public:
  Terms(const ModelCard& card, const StepShape& shape, const ParallelLayout& layout)
      : hardware_(*find_hardware("H100")),
        terms_(step_terms(facts_of(card), hardware_, layout, step_bits(card.types, 16), load_of(shape))) {}
  double bytes(Term term) const { return terms_[term] / 1e3 * hardware_.bandwidth_gbs * 1e9; }
  double operations(Term term) const { return terms_[term] / 1e3 * hardware_.bf16_tflops * 1e12; }

 private:
  Hardware hardware_;
  StepTerms terms_;
};

ModelCard in_16_bits(const char* name) {
  auto card = read_model_card(name);
  EXPECT_TRUE(card.has_value()) << name;
  card->types = *parse_weight_types("bf16");
  return *std::move(card);
}

// Routers, norms and biases are not terms of their own, and tensor parallelism repeats routers and what makes latents.
constexpr double kLeftOut = 0.03, kRepeated = 0.06, kLatents = 0.3;

TEST(StepTerms, CountWhatOperatorsCount) {
  StepShape decode;
  for (int i = 0; i < 24; ++i) decode.add(3000 + 10 * i, 3001 + 10 * i, true);
  StepShape prefill;
  for (int i = 0; i < 3; ++i) prefill.add(100 * i, 100 * i + 1500, true);
  for (const char* name : {"Llama-3.1-8B", "Llama-3.3-70B", "Qwen3-32B", "Qwen3-30B-A3B", "Qwen3-235B-A22B",
                           "Mixtral-8x7B", "GLM-4.5", "MiniMax-M2.5", "DeepSeek-V3", "Kimi-K2"}) {
    const ModelCard card = in_16_bits(name);
    const bool latent = card.spec.latent.rank > 0;
    for (const int tp : {1, 4}) {
      const ParallelLayout layout{.tp = tp};
      const std::string what = std::string(name) + " TP" + std::to_string(tp);
      const Sums one = sums_of(card, decode, layout);
      const Terms terms(card, decode, layout);
      EXPECT_NEAR(terms.bytes(kTermDense) / one.dense_weights, 1,
                  tp == 1  ? kLeftOut
                  : latent ? kLatents
                           : kRepeated)
          << what;
      EXPECT_NEAR(terms.bytes(kTermKv) / one.kv, 1, 0.002) << what;
      EXPECT_NEAR(terms.operations(kTermDecodeMath) / (one.products + one.head), 1, latent ? kLatents : kLeftOut)
          << what;
      if (card.spec.experts.count > 0) {
        EXPECT_NEAR(terms.bytes(kTermExperts) / one.expert_weights, 1, kLeftOut) << what;
      }
      if (latent) {
        EXPECT_NEAR(terms.operations(kTermDecodeAttention) / one.decode_attention, 1, 0.002) << what;
      }
      const Sums prompts = sums_of(card, prefill, layout);
      const Terms read(card, prefill, layout);
      EXPECT_NEAR(read.operations(kTermPrefillMath) / prompts.products, 1, latent ? kLatents : kLeftOut) << what;
      EXPECT_NEAR(read.operations(kTermPrefillAttention) / prompts.prefill_attention, 1, 0.002) << what;
    }
  }
}

}  // namespace
}  // namespace weir::plan
