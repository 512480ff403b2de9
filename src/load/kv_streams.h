// What a model keeps of the tokens it has read, as the KV cache's layout and the layers must agree on it.
#pragma once

#include <vector>

#include "load/model_spec.h"

namespace weir::load {

// Elements that a vector of so many takes in the cache: kernels read whole eights, zeros fill them up.
constexpr int stored_dim(int dim) {
  return (dim + 7) / 8 * 8;
}

// Vectors that a layer keeps of every token.
struct KvStream {
  enum class Role { kMain, kIndex };  // keys and values, or the keys of the indexer
  int layer = 0;
  Role role = Role::kMain;
  int window = 0;  // tokens a query sees; 0 = all
  int heads = 0, key_dim = 0;
  int value_dim = 0;          // of what is stored for itself
  int value_dim_in_keys = 0;  // > 0: values are the first so many elements of the keys
  std::int64_t stored_elements() const { return std::int64_t{heads} * (stored_dim(key_dim) + stored_dim(value_dim)); }
};

// All streams, layer by layer.
std::vector<KvStream> kv_streams(const ModelSpec& spec);

// Bytes of recurrent state that a sequence keeps, whatever its length: layer after layer of those that have some.
std::int64_t state_bytes(const ModelSpec& spec);

}  // namespace weir::load
