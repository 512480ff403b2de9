// BlockPool: who may use each physical KV block.
//
// Counts references to equal blocks. It knows nothing of sequences, tokens or bytes.
//
// Invariants (check_integrity())
//   A block is in exactly one state: free; idle (unreferenced, contents kept for a later hit); in use (referenced).
//   free() + idle() + in_use() == capacity().
//   A block in use is never handed out by acquire(). Idle blocks are handed out only when nothing is free, the one
//   released longest ago first.
// Cost: every operation O(1); nothing is allocated after construction. Threads: engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace weir::kv {

class BlockPool {
 public:
  struct Taken {
    BlockId block{};
    bool evicted = false;  // it was idle: its contents can no longer be hit
  };
  enum class Release { kStillUsed, kIdle, kFree };

  explicit BlockPool(std::uint32_t capacity);

  // A block with one reference; nullopt when every block is in use.
  [[nodiscard]] std::optional<Taken> acquire();
  // One reference more to an idle or used block.
  void retain(BlockId block);
  // One reference less. The last one leaves the block idle if its contents are to be kept, else free.
  Release release(BlockId block, bool keep);
  // Makes an idle block free.
  void forget(BlockId block);

  std::optional<BlockId> oldest_idle() const;
  std::uint32_t references(BlockId block) const { return references_[value(block)]; }
  bool is_idle(BlockId block) const { return next_[value(block)] != kUnlinked; }

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(references_.size()); }
  std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t idle() const { return idle_; }
  std::uint32_t in_use() const { return capacity() - free() - idle_; }

  // O(capacity). Aborts with the block that breaks an invariant.
  void check_integrity() const;

 private:
  static constexpr std::uint32_t kUnlinked = ~std::uint32_t{0};

  void unlink(std::uint32_t block);

  std::vector<std::uint32_t> references_;  // by block
  std::vector<std::uint32_t> free_;        // a stack: the block used last is the one still in the caches
  // Idle blocks as a ring through a sentinel at index capacity(): its next is the oldest, its prev the youngest.
  std::vector<std::uint32_t> next_, prev_;
  std::uint32_t idle_ = 0;
};

}  // namespace weir::kv
