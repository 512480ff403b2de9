#include "engine/kv_sizing.h"

#include <algorithm>

#include "load/kv_streams.h"

namespace weir::engine {
namespace {

// Without a flag: enough for a good batch of conversations, and never more than half of what is free, because the
// machine has other things to do. Untouched blocks cost no memory (the arena is mapped, not written).
constexpr std::int64_t kDefaultPoolBytes = std::int64_t{4} << 30;

// A block id must fit an int32 and a slot an int64; 2^30 blocks are far beyond any memory.
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;

// The scheduler cuts chunks so that they fit; what a sequence needs to run at all is room for one token a step.
constexpr std::int64_t kStepTokens = 1;

// The most tokens one sequence can have in `blocks`; 0 if not even one.
std::int64_t longest_sequence(const kv::KvLayout& layout, std::int64_t blocks, std::int64_t limit) {
  std::int64_t low = 0, high = limit;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (layout.blocks_needed(middle, kStepTokens) <= blocks) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

Result<tensor::DType> choose_kv_dtype(const std::string& flag, tensor::DType weights) {
  if (flag == "f32") return tensor::DType::kF32;
  if (flag == "f16") return tensor::DType::kF16;
  if (flag == "bf16") return tensor::DType::kBF16;
  // F16 for BF16 weights too: keys and values are far from F16's limits, and its three more bits of precision cut the
  // error that a 16-bit cache adds to logprobs tenfold (tiny BF16 Llama: 0.008 at worst instead of 0.07).
  if (flag == "auto") return weights == tensor::DType::kF32 ? tensor::DType::kF32 : tensor::DType::kF16;
  return fail_at("kv-cache-dtype", ErrorCode::kInvalidArgument,
                 "--kv-cache-dtype '{}' is not one of auto, f32, f16, bf16", flag);
}

kv::KvLayout layout_for(const load::ModelSpec& spec, tensor::DType dtype, int block_tokens) {
  std::vector<kv::KvStream> streams;
  for (const load::KvStream& stream : load::kv_streams(spec)) {
    streams.push_back({.window = stream.window,
                       .heads = stream.heads,
                       .key_dim = load::stored_dim(stream.key_dim),
                       .value_dim = load::stored_dim(stream.value_dim)});
  }
  return kv::plan_layout(streams, dtype, block_tokens, load::state_bytes(spec));
}

load::KvCost kv_cost(const load::ModelSpec& spec, tensor::DType dtype) {
  const kv::KvLayout layout = layout_for(spec, dtype, EngineConfig().block_size);
  return {.bytes_per_token =
              static_cast<double>(layout.groups.size()) * static_cast<double>(layout.block_bytes) / layout.block_tokens,
          .bytes_of_context = layout.blocks_needed(spec.context_length, kStepTokens) * layout.block_bytes,
          .state_bytes = layout.state_blocks * layout.block_bytes};
}

Result<KvSizing> size_kv(const EngineConfig& config, const load::ModelSpec& spec, const kv::KvLayout& layout,
                         std::int64_t available_memory) {
  if (config.max_model_len == 1) {
    return fail_at("max-model-len", ErrorCode::kInvalidArgument,
                   "--max-model-len 1 leaves no room for a reply; give at least 2, or 0 for the model's own");
  }
  if (spec.context_length < 2) {
    return fail_at("max-model-len", ErrorCode::kCorruptFile,
                   "the model says that its context is {} token: that leaves no room for a reply", spec.context_length);
  }
  KvSizing sizing;
  sizing.max_model_len = config.max_model_len > 0 ? config.max_model_len : spec.context_length;
  const std::int64_t one_sequence = layout.blocks_needed(sizing.max_model_len, kStepTokens);

  std::int64_t blocks = 0;
  if (config.num_kv_blocks) {
    blocks = *config.num_kv_blocks;
  } else {
    std::int64_t bytes = 0;
    if (config.kv_cache_memory_bytes) {
      bytes = *config.kv_cache_memory_bytes;
    } else {
      const std::int64_t one_sequence_bytes = one_sequence * layout.block_bytes;
      bytes = std::min({available_memory / 2, std::max(kDefaultPoolBytes, one_sequence_bytes),
                        one_sequence_bytes * config.max_num_seqs});
    }
    blocks = bytes / layout.block_bytes;
  }
  blocks = std::min(blocks, kMaxBlocks);
  if (blocks * layout.block_bytes > available_memory) {
    return fail_at(
        config.num_kv_blocks ? "num-kv-blocks" : "kv-cache-memory", ErrorCode::kInvalidArgument,
        "the KV pool asked for has {} blocks of {} bytes, {:.1f} GB; this machine has {:.1f} GB available. Give a "
        "smaller {}",
        blocks, layout.block_bytes, static_cast<double>(blocks * layout.block_bytes) / 1e9,
        static_cast<double>(available_memory) / 1e9, config.num_kv_blocks ? "--num-kv-blocks" : "--kv-cache-memory");
  }
  if (config.max_model_len == 0) {
    sizing.max_model_len = longest_sequence(layout, blocks, sizing.max_model_len);
  }
  if (blocks < layout.blocks_needed(2, kStepTokens)) {
    return fail_at(
        "kv-cache-memory", ErrorCode::kInvalidArgument,
        "the KV pool has {} blocks of {} bytes ({} tokens each); a sequence of 2 tokens needs {}. Give more memory "
        "(--kv-cache-memory, --num-kv-blocks) or use a smaller --block-size",
        blocks, layout.block_bytes, layout.block_tokens, layout.blocks_needed(2, kStepTokens));
  }
  if (config.max_model_len > 0 && one_sequence > blocks) {
    return fail_at(
        "max-model-len", ErrorCode::kInvalidArgument,
        "one sequence of --max-model-len {} takes {} KV blocks of {} tokens, but the KV pool has {} ({:.3f} GB), which "
        "hold a sequence of at most {} tokens. Lower --max-model-len or give more memory (--kv-cache-memory, "
        "--num-kv-blocks)",
        config.max_model_len, one_sequence, layout.block_tokens, blocks,
        static_cast<double>(blocks * layout.block_bytes) / 1e9, longest_sequence(layout, blocks, config.max_model_len));
  }
  sizing.num_blocks = static_cast<std::uint32_t>(blocks);
  return sizing;
}

KvTokens tokens_held(const kv::KvLayout& layout, std::uint32_t num_blocks, std::int64_t max_model_len) {
  const auto groups = static_cast<std::int64_t>(layout.groups.size());
  // Long and short sequences hold different numbers of blocks per token.
  const bool differs =
      layout.state_blocks > 0 || std::any_of(layout.groups.begin(), layout.groups.end(),
                                             [](const kv::KvGroup& group) { return group.window > 0; });
  KvTokens held;
  held.in_short_sequences = std::max<std::int64_t>(num_blocks - layout.state_blocks, 0) / groups * layout.block_tokens;
  held.in_full_sequences =
      differs ? num_blocks / layout.blocks_needed(max_model_len, kStepTokens) * max_model_len : held.in_short_sequences;
  return held;
}

}  // namespace weir::engine
