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
  config.max_model_len = 512;
  const auto sizing = size_kv(config, spec, layout, kGiB);
  ASSERT_TRUE(sizing);
  EXPECT_EQ(sizing->num_blocks, 5u);
  EXPECT_EQ(sizing->max_model_len, 512) << "requests that do not fit five blocks are refused one by one";
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
  EXPECT_LE(size_kv(config, spec, layout, kGiB)->num_blocks * layout.block_bytes(), kGiB / 2);
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

}  // namespace
}  // namespace weir::engine
