// KvStorage: from a block's number to its bytes in the arena.
//
// The arena belongs to the caller (a backend buffer) and is [block][stream][K|V][head][token][dim]; see
// kv_layout.h. A block holds a piece of one group; which group is the block tables' knowledge, not the arena's.
// Threads: const after construction; copy() and poison() write the block they name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "kv/kv_layout.h"

namespace weir::kv {

class KvStorage {
 public:
  struct Slice {
    std::byte* base = nullptr;      // of this stream's slice of block 0
    std::int64_t block_stride = 0;  // bytes to the same slice of the next block
  };

  // Arena size in bytes.
  static std::int64_t bytes(const KvLayout& layout, std::uint32_t num_blocks);

  KvStorage(const KvLayout& layout, std::uint32_t num_blocks, std::byte* arena);

  Slice stream(int index) const;
  std::span<std::byte> block(BlockId block) const;

  void copy(BlockId from, BlockId to) const;

  // Fills the block with NaN, so that whoever reads a slot nobody has written since spoils its result visibly.
  void poison(BlockId block) const;

 private:
  KvLayout layout_;
  std::uint32_t num_blocks_;
  std::byte* arena_;
};

}  // namespace weir::kv
