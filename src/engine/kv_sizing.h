// How large the KV pool is, and how long a sequence may get, from the configuration, the model and the memory that is
// there.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/engine.h"
#include "kv/kv_layout.h"
#include "load/inspect.h"
#include "load/model_spec.h"

namespace weir::engine {

struct KvSizing {
  std::uint32_t num_blocks = 0;
  std::int64_t max_model_len = 0;
};

// The KV element type for --kv-cache-dtype; "auto" is f32 for F32 weights, else f16.
Result<tensor::DType> choose_kv_dtype(const std::string& flag, tensor::DType weights);

// What that layout takes with blocks of the default size: for `weir inspect`.
load::KvCost kv_cost(const load::ModelSpec& spec, tensor::DType dtype);

kv::KvLayout layout_for(const load::ModelSpec& spec, tensor::DType dtype, int block_tokens);

// Without explicit numbers the pool takes up to half of the available memory, at most what max_num_seqs full sequences
// can use, and max_model_len is lowered to what the pool can hold. Explicit numbers are kept, or refused when the pool
// cannot hold one sequence of max_model_len.
Result<KvSizing> size_kv(const EngineConfig& config, const load::ModelSpec& spec, const kv::KvLayout& layout,
                         std::int64_t available_memory);

// How many tokens a pool holds, for people: that depends on how long the sequences are.
struct KvTokens {
  std::int64_t in_full_sequences = 0;   // whole sequences of max_model_len
  std::int64_t in_short_sequences = 0;  // sequences within the model's sliding windows: every layer keeps every token
};
KvTokens tokens_held(const kv::KvLayout& layout, std::uint32_t num_blocks, std::int64_t max_model_len);

}  // namespace weir::engine
