// KvManager: which blocks hold which tokens of which sequence, in every KV group.
//
// One pool of equal blocks serves all groups. A sequence has one block table per group; a group with a window gives back blocks that
// no future query can see. Full blocks of computed tokens get an identity (a SHA-256 chain over token ids, model, salt; per group) and stay
// findable in the prefix index until the pool needs the space (least recently used first, a sequence's tail before its head).
//
// Invariants (check_integrity(), called by tests after every operation and by the engine when idle)
//   I1  A block is in exactly one state: free, idle (unreferenced, contents cached) or in use; the three counts sum to the capacity.
//   I2  A block's reference count equals the number of table entries that name it.
//   I3  A block that several sequences share, or that is cached, is full and never written again.
// Cost: allocate and free O(blocks touched). Threads: engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "kv/kv_layout.h"

namespace weir::kv {

enum class PrefixIndexKind { kNone, kHash, kRadix };

struct KvConfig {
  KvLayout layout;
  std::uint32_t num_blocks = 0;
  PrefixIndexKind prefix_index = PrefixIndexKind::kHash;
  std::string model_id;  // part of every block's identity
};

enum class Fit { kNow, kNotNow, kNever };

struct KvStats {
  std::uint32_t capacity = 0, free = 0, idle = 0, in_use = 0;
  double usage() const { return capacity ? static_cast<double>(in_use) / capacity : 0.0; }
};

class KvManager {
 public:
  explicit KvManager(KvConfig config);
  ~KvManager();

  const KvLayout& layout() const;

  // The most blocks a sequence of `tokens` tokens can hold at once, over all groups. The one formula for pool sizing, admission and
  // "never fits". `step_tokens`: most tokens one step may add (a window group holds window - 1 + step tokens).
  std::uint32_t blocks_needed(std::int64_t tokens, std::int64_t step_tokens) const;

  // Starts a sequence. With use_prefix, takes over the longest cached prefix of `tokens` (whole blocks, in every group what its window
  // needs, and at most tokens.size() - 1 tokens: at least one must be computed). Returns how many tokens are already computed.
  std::int64_t begin(SeqId seq, std::span<const TokenId> tokens, std::string_view salt, bool use_prefix);
  // What begin() would find, without taking it.
  std::int64_t peek_prefix(std::span<const TokenId> tokens, std::string_view salt) const;

  // Makes room for tokens [0, end) of the sequence; existing entries stay. kNow: done. kNotNow: nothing changed, the pool lacks
  // blocks right now. kNever: more than the whole pool. Frees what has left the windows of queries >= `computed` first.
  Fit extend(SeqId seq, std::int64_t computed, std::int64_t end);

  // Tokens [0, computed) of `tokens` are now in the cache: full blocks become findable.
  void commit(SeqId seq, std::span<const TokenId> tokens, std::int64_t computed);

  // Ends the sequence (finished, cancelled or preempted). Its cached blocks stay findable while idle.
  void free(SeqId seq);

  // Physical block of each logical block; -1 where the window has passed. Valid until the next non-const call for this sequence.
  std::span<const std::int32_t> block_table(SeqId seq, int group) const;

  KvStats stats() const;
  std::uint32_t available() const;  // free + idle: what extend() can still take
  void check_integrity() const;
  // Forgets every cached block that is not in use.
  void clear_cache();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::kv
