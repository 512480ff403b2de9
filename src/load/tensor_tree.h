// Tensors of a file as a tree: those of the model as a whole, and layer by layer, neighbouring layers of the same shape
// as one. For people: sorts by what the names say, knows nothing of families.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "load/weight_source.h"

namespace weir::load {

struct TensorGroup {
  std::int64_t first_layer = -1, last_layer = -1;  // -1: belongs to no layer
  std::int64_t bytes = 0;                          // of one layer
  std::vector<UnsupportedTensor> tensors;          // of the first layer
};

// The layer is the first part of a name between dots that is a number ("blk.3.attn_q.weight"). In order of layers,
// those of none first; tensors as they come.
std::vector<TensorGroup> tensor_tree(std::span<const UnsupportedTensor> tensors);

// The name without what stands before its layer's number ("attn_q.weight"); all of it if there is none.
std::string_view name_in_layer(std::string_view name);

}  // namespace weir::load
