// How long keys and values are in the KV cache: kernels read whole vectors of eight elements, so others are stored with
// zeros behind them. (load/kv_streams.h says the same of the cache's size.) A zero adds nothing to a score, and the
// columns of an output that zeros make are left out.
#pragma once

#include "backend/backend.h"

namespace weir::backend::cpu {

constexpr int kKvUnit = 8;

constexpr int stored_dim(int dim) {
  return (dim + kKvUnit - 1) / kKvUnit * kKvUnit;
}
inline int stored_key_dim(const KvLayerView& kv) {
  return stored_dim(kv.head_dim);
}
// Of values that are stored for themselves; 0 where they lie in keys.
inline int stored_value_dim(const KvLayerView& kv) {
  return kv.values_in_keys ? 0 : stored_dim(kv.value_size());
}

}  // namespace weir::backend::cpu
