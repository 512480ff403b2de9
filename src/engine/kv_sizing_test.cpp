#include "engine/kv_sizing.h"

#include <gtest/gtest.h>

namespace weir::engine {
namespace {

load::ModelSpec spec_of(std::int64_t context) {
  load::ModelSpec spec;
  spec.layers = 2;
  spec.kv_heads = 2;
  spec.head_dim = 8;
  spec.context_length = context;
  spec.layer.resize(2);
  return spec;
}

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(KvSizing, AutoIsF32ForF32WeightsAndF16ForAllOthers) {
  EXPECT_EQ(choose_kv_dtype("auto", tensor::DType::kF32), tensor::DType::kF32);
  EXPECT_EQ(choose_kv_dtype("auto", tensor::DType::kBF16), tensor::DType::kF16);
  EXPECT_EQ(choose_kv_dtype("auto", tensor::DType::kQ4_0), tensor::DType::kF16);
  EXPECT_EQ(choose_kv_dtype("bf16", tensor::DType::kF32), tensor::DType::kBF16);
  EXPECT_EQ(choose_kv_dtype("int3", tensor::DType::kF32).error().param, "kv-cache-dtype");
}

TEST(KvSizing, ExplicitNumbersAreKept) {
  const load::ModelSpec spec = spec_of(1024);
  const kv::KvLayout layout = layout_for(spec, tensor::DType::kF32, 16);
  EngineConfig config;
  config.num_kv_blocks = 5;
  config.max_model_len = 80;
  const auto sizing = size_kv(config, spec, layout, kGiB);
  ASSERT_TRUE(sizing);
  EXPECT_EQ(sizing->num_blocks, 5u);
  EXPECT_EQ(sizing->max_model_len, 80);
}

TEST(KvSizing, ALengthThatThePoolCannotHoldIsRefusedWithTheOneItCan) {
  const load::ModelSpec spec = spec_of(1024);
  const kv::KvLayout layout = layout_for(spec, tensor::DType::kF32, 16);
  EngineConfig config;
  config.max_model_len = 81;
  const auto refused = [&] {
    const auto sizing = size_kv(config, spec, layout, kGiB);
    EXPECT_FALSE(sizing);
    return sizing ? Error{} : sizing.error();
  };
  config.num_kv_blocks = 5;
  Error error = refused();
  EXPECT_EQ(error.param, "max-model-len");
  for (const char* part : {"--max-model-len 81 takes 6 KV blocks", "pool has 5", "at most 80 tokens"})
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  config.num_kv_blocks.reset();
  config.kv_cache_memory_bytes = 5 * layout.block_bytes;
  error = refused();
  EXPECT_NE(error.message.find("at most 80 tokens"), std::string::npos) << error.message;
}

TEST(KvSizing, AContextWithoutRoomForAReplyIsTheModelsFault) {
  const load::ModelSpec spec = spec_of(1);
  const auto sizing = size_kv({}, spec, layout_for(spec, tensor::DType::kF32, 16), kGiB);
  ASSERT_FALSE(sizing);
  EXPECT_NE(sizing.error().message.find("context is 1 token"), std::string::npos) << sizing.error().message;
}

TEST(KvSizing, WhatAPoolHoldsCountsEveryGroupOfLayers) {
  load::ModelSpec spec = spec_of(4096);
  const kv::KvLayout full = layout_for(spec, tensor::DType::kF32, 16);
  EXPECT_EQ(tokens_held(full, 10, 100).in_full_sequences, 160);
  EXPECT_EQ(tokens_held(full, 10, 100).in_short_sequences, 160);
  // Gemma 3 270M: 15 layers with a window of 512 in five groups, three layers without one in the sixth.
  spec.layer.resize(18);
  for (std::size_t i = 0; i < spec.layer.size(); ++i) spec.layer[i].window = i % 6 == 5 ? 0 : 512;
  const kv::KvLayout gemma = layout_for(spec, tensor::DType::kF32, 16);
  ASSERT_EQ(gemma.groups.size(), 6u);
  EXPECT_EQ(tokens_held(gemma, 400, 2048).in_short_sequences, 66 * 16);
  EXPECT_EQ(gemma.blocks_needed(2048, 1), 128u + 5 * 33);
  EXPECT_EQ(tokens_held(gemma, 400, 2048).in_full_sequences, 2048);
  EXPECT_EQ(tokens_held(gemma, 600, 2048).in_full_sequences, 2 * 2048);
}

TEST(KvSizing, WithoutALengthThePoolBoundsIt) {
  const load::ModelSpec spec = spec_of(1024);
  EngineConfig config;
  config.num_kv_blocks = 5;
  EXPECT_EQ(size_kv(config, spec, layout_for(spec, tensor::DType::kF32, 16), kGiB)->max_model_len, 80);
}

TEST(KvSizing, DefaultsNeverTakeMoreThanHalfOfWhatIsFreeOrCanBeUsed) {
  const load::ModelSpec spec = spec_of(1 << 20);
  const kv::KvLayout layout = layout_for(spec, tensor::DType::kF32, 16);
  EngineConfig config;
  EXPECT_LE(size_kv(config, spec, layout, kGiB)->num_blocks * layout.block_bytes, kGiB / 2);
  config.max_num_seqs = 2;
  const load::ModelSpec small = spec_of(64);
  EXPECT_EQ(size_kv(config, small, layout_for(small, tensor::DType::kF32, 16), kGiB)->num_blocks, 8u);
}

TEST(KvSizing, RefusesWhatTheMachineDoesNotHave) {
  const load::ModelSpec spec = spec_of(1024);
  const kv::KvLayout layout = layout_for(spec, tensor::DType::kF32, 16);
  EngineConfig config;
  config.num_kv_blocks = 1u << 30;
  EXPECT_EQ(size_kv(config, spec, layout, kGiB).error().param, "num-kv-blocks");
  config.num_kv_blocks.reset();
  config.kv_cache_memory_bytes = 64 * kGiB;
  EXPECT_EQ(size_kv(config, spec, layout, kGiB).error().param, "kv-cache-memory");
  config.kv_cache_memory_bytes = 8;
  EXPECT_FALSE(size_kv(config, spec, layout, kGiB)) << "less than a block";
  config.kv_cache_memory_bytes = kGiB / 2;
  config.max_model_len = 1;
  EXPECT_EQ(size_kv(config, spec, layout, kGiB).error().param, "max-model-len");
}

// What `weir inspect` says of models whose numbers are known.
TEST(KvSizing, CostOfKnownModels) {
  load::ModelSpec llama;  // Llama 3.3 70B
  llama.layers = 80;
  llama.kv_heads = 8;
  llama.head_dim = 128;
  llama.context_length = 131072;
  llama.layer.resize(80);
  EXPECT_EQ(kv_cost(llama, tensor::DType::kBF16).bytes_per_token, 320.0 * 1024);
  EXPECT_EQ(kv_cost(llama, tensor::DType::kF16).bytes_of_context, std::int64_t{131072} * 320 * 1024);

  load::ModelSpec deepseek;  // DeepSeek V3
  deepseek.layers = 61;
  deepseek.heads = 128;
  deepseek.context_length = 163840;
  deepseek.latent = {.query_rank = 1536, .rank = 512, .plain_dim = 128, .rope_dim = 64, .value_dim = 128};
  deepseek.layer.resize(61, {.mixer = load::Mixer::kLatent});
  EXPECT_EQ(kv_cost(deepseek, tensor::DType::kF16).bytes_per_token, 576.0 * 61 * 2);

  load::ModelSpec next;  // Qwen3-Next 80B: 12 of 48 layers have attention
  next.layers = 48;
  next.kv_heads = 2;
  next.head_dim = 256;
  next.context_length = 262144;
  next.delta = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .taps = 4};
  next.layer.resize(48, {.mixer = load::Mixer::kDelta});
  for (std::size_t i = 3; i < 48; i += 4) next.layer[i].mixer = load::Mixer::kAttention;
  const load::KvCost cost = kv_cost(next, tensor::DType::kF16);
  EXPECT_EQ(cost.bytes_per_token, 12.0 * 2 * 2 * 256 * 2);
  const std::int64_t state = std::int64_t{36} * (32 * 128 * 128 + 3 * 8192) * 4;
  EXPECT_GE(cost.state_bytes, state);
  EXPECT_LT(cost.state_bytes, state + 16 * 24576);
}

}  // namespace
}  // namespace weir::engine
