// KvLayout: how a model's KV cache is cut into groups and blocks of bytes.
//
// What a layer keeps of every token is a stream (a layer may have two: DeepSeek V3.2's latents and its indexer's keys).
// Streams that keep the same tokens in the same form are a kind. Kinds are split into groups, each with a block table
// of its own, so that a block of any group has the same number of bytes and all groups draw from one pool: Gemma 3's 15
// local and 3 global layers become five local groups and one global one of 3 layers each. What does not fill its last
// group's blocks leaves bytes unused.
//
// Recurrent state, which is of a sequence and not of its tokens, takes whole blocks of the same pool.
//
// The arena is [block][stream][K|V][head][token][dim]: a whole block moves in one transfer, one stream's slice moves
// alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace weir::kv {

struct KvStream {
  int window = 0;  // tokens a query sees, itself included; 0 = all
  int heads = 0, key_dim = 0;
  int value_dim = 0;  // 0: keys only
  friend auto operator<=>(const KvStream&, const KvStream&) = default;
};

struct KvGroup {
  int window = 0;            // of its streams
  std::vector<int> streams;  // in order
};

struct KvLayout {
  int block_tokens = 16;
  tensor::DType dtype = tensor::DType::kF32;
  std::int64_t block_bytes = 0;
  std::vector<KvGroup> groups;

  struct Place {
    int group = 0;
    std::int64_t offset = 0;  // of the stream's slice in a block
  };
  std::vector<Place> place;  // by stream

  // Whole blocks that hold a sequence's recurrent state, whatever its length; 0: there is none.
  std::int64_t state_blocks = 0;

  double bytes_per_token() const;  // of a long sequence: full-attention groups only

  // The most blocks a sequence of `tokens` tokens can hold at once, over all groups. The one formula for pool sizing,
  // admission and "never fits"; any text needs its state. `step_tokens`: most tokens one step may add (a window group
  // holds window - 1 + step tokens).
  std::uint32_t blocks_needed(std::int64_t tokens, std::int64_t step_tokens) const;
};

KvLayout plan_layout(std::span<const KvStream> streams, tensor::DType dtype, int block_tokens,
                     std::int64_t state_bytes = 0);

}  // namespace weir::kv
