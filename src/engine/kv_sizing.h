// How large the KV pool is, and how long a sequence may get, from the configuration, the model and the memory that is
// there.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/engine.h"
#include "kv/kv_layout.h"
#include "load/model_spec.h"

namespace weir::engine {

struct KvSizing {
  std::uint32_t num_blocks = 0;
  std::int64_t max_model_len = 0;
};

// The KV element type for --kv-cache-dtype; "auto" is f32 for F32 weights, else f16.
Result<tensor::DType> choose_kv_dtype(const std::string& flag, tensor::DType weights);

kv::KvLayout layout_for(const load::ModelSpec& spec, tensor::DType dtype, int block_tokens);

// Explicit numbers are kept (a pool too small for max_model_len refuses the requests that do not fit it, one by one).
// Without them the pool takes up to half of the available memory, at most what max_num_seqs full sequences can use, and
// max_model_len is lowered to what the pool can hold.
Result<KvSizing> size_kv(const EngineConfig& config, const load::ModelSpec& spec, const kv::KvLayout& layout,
                         std::int64_t available_memory);

}  // namespace weir::engine
