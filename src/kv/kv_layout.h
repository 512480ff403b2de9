// KvLayout: how a model's KV cache is cut into groups and blocks of bytes.
//
// Layers that keep the same tokens form a kind (full attention, a sliding window of w). Kinds are split into groups of
// equally many layers, so that every group's block has the same number of bytes and all groups draw from one pool:
// Gemma 3's 15 local and 3 global layers become five local groups and one global one of 3 layers each. A kind whose
// layer count is no multiple leaves unused layer slots in its last group.
//
// The arena is [block][layer slot][K|V][head][token][dim]: a whole block moves in one transfer, one layer's slice moves
// alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace weir::kv {

struct KvGroup {
  int window = 0;           // tokens a query sees, itself included; 0 = all
  std::vector<int> layers;  // model layers, in order; position in this list = layer slot
};

struct KvLayout {
  int block_tokens = 16;
  int heads = 0, head_dim = 0;  // of K and V, per layer
  tensor::DType dtype = tensor::DType::kF32;
  int layer_slots = 0;  // layers per block
  std::vector<KvGroup> groups;

  struct Place {
    int group = 0, slot = 0;
  };
  std::vector<Place> place;  // by model layer

  std::int64_t slot_bytes() const;  // one layer's slice of a block
  std::int64_t block_bytes() const { return slot_bytes() * layer_slots; }
  double bytes_per_token() const;  // of a long sequence: full-attention groups only

  // The most blocks a sequence of `tokens` tokens can hold at once, over all groups. The one formula for pool sizing,
  // admission and "never fits". `step_tokens`: most tokens one step may add (a window group holds window - 1 + step
  // tokens).
  std::uint32_t blocks_needed(std::int64_t tokens, std::int64_t step_tokens) const;
};

// `windows[l]`: window of layer l, 0 = full.
KvLayout plan_layout(std::span<const int> windows, int heads, int head_dim, tensor::DType dtype, int block_tokens);

}  // namespace weir::kv
