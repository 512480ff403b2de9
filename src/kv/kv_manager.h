// KvManager: which blocks hold which tokens of which sequence, in every KV group.
//
// One pool of equal blocks serves all groups. A sequence has one block table per group; a group with a window gives
// back blocks that no future query can see. Full blocks of computed tokens get an identity (a SHA-256 chain over token
// ids, model, salt; per group) and stay findable in the prefix index until the pool needs the space (least recently
// used first, a sequence's tail before its head).
//
// Recurrent state can only be taken up where it was kept: commit() copies a sequence's state into blocks of their own,
// named like the block of text that it follows, at two places of a text: before its last token, and where what others
// had cached of it ended without a state (so the second text with a beginning in common leaves a state for the third).
// Prefixes of such models end at kept states. Kept states are idle blocks like others: they last until the pool needs
// the space, and are lost with the first of their blocks.
//
// Invariants (check_integrity(), called by tests after every operation and by the engine when idle)
//   I1  A block is in exactly one state: free, idle (unreferenced, contents cached) or in use; the three counts sum to
//       the capacity.
//   I2  A block's reference count equals the number of table entries that name it.
//   I3  A block that several sequences share, or that is cached, is full and never written again. Hence no
//       copy-on-write: a sequence takes over whole blocks only and writes into blocks of its own.
//   I4  Two sequences that computed the same text at the same time keep a block each; others find the one that was
//       committed first.
// Cost: allocate and free O(blocks touched); a block is hashed once per sequence. Threads: engine thread only, except
// blocks_needed(), capacity() and layout(), which read only the configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "kv/kv_layout.h"
#include "kv/prefix_index.h"

namespace weir::kv {

struct KvConfig {
  KvLayout layout;
  std::uint32_t num_blocks = 0;
  PrefixIndexKind prefix_index = PrefixIndexKind::kHash;
  std::string model_id;  // part of every block's identity
  // How many ids of a text stand for one block: 0: block_tokens, a text is its token ids. A simulator, which cares
  // which blocks are equal and not what is in them, gives an outline instead: so many ids for a block, whatever its
  // tokens.
  int ids_per_block = 0;
  // Called when a block's contents become meaningless: nobody may read it again before writing it. For
  // KvStorage::poison.
  std::function<void(BlockId)> on_discard;
  // Copies a block's bytes. Only recurrent state is ever copied.
  std::function<void(BlockId from, BlockId to)> on_copy;
};

// A text, or its outline (KvConfig::ids_per_block): `tokens` counts what it says, the ids may reach further.
struct Text {
  std::span<const TokenId> ids;
  std::int64_t tokens = 0;

  Text(std::span<const TokenId> text) : ids(text), tokens(static_cast<std::int64_t>(text.size())) {}
  Text(const std::vector<TokenId>& text) : Text(std::span<const TokenId>(text)) {}
  Text(std::span<const TokenId> outline, std::int64_t length) : ids(outline), tokens(length) {}
};

enum class Fit { kNow, kNotNow, kNever };

struct KvStats {
  std::uint32_t capacity = 0, free = 0, idle = 0, in_use = 0;
  double usage() const { return capacity ? static_cast<double>(in_use) / capacity : 0.0; }
};

// The names of a text's leading blocks, kept by a sequence for life so that waiting, preemption and return hash nothing
// twice. Valid for texts that begin with the text they were made from, and for one salt.
struct PrefixNames {
  BlockName root;
  bool has_root = false;
  std::vector<BlockName> blocks;
};

struct PrefixHit {
  std::int64_t tokens = 0;
  // Blocks of the hit that others use anyway and that the sequence will hold until all of its text is computed: they
  // come off blocks_needed(). The hit's idle blocks do not: taking them takes them out of available().
  std::uint32_t shared_blocks = 0;
};

class KvManager {
 public:
  explicit KvManager(KvConfig config);
  ~KvManager();

  const KvLayout& layout() const;
  std::uint32_t capacity() const;

  // KvLayout::blocks_needed() of this layout.
  std::uint32_t blocks_needed(std::int64_t tokens, std::int64_t step_tokens) const;

  // Starts a sequence. With use_prefix, takes over the longest cached prefix of `text` (whole blocks, in every group
  // what its window needs, and at most all but one of its tokens: at least one must be computed). Returns how many
  // tokens are already computed. `names`: what find_prefix() and free() left there is used and taken.
  // `expected_tokens`: as far as the sequence will probably go, so that tables need not grow on the way.
  std::int64_t begin(SeqId seq, Text text, std::string_view salt, bool use_prefix, PrefixNames* names = nullptr,
                     std::int64_t expected_tokens = 0);
  // What begin() would find, without taking it.
  PrefixHit find_prefix(Text text, std::string_view salt, PrefixNames& names) const;
  std::int64_t peek_prefix(Text text, std::string_view salt) const;

  // Makes room for tokens [0, end) of the sequence; existing entries stay. kNow: done. kNotNow: nothing changed, the
  // pool lacks blocks right now. kNever: more than the whole pool. Frees what has left the windows of queries >=
  // `computed` first.
  Fit extend(SeqId seq, std::int64_t computed, std::int64_t end);
  // The largest end' <= end for which extend(seq, computed, end') would be kNow; at least the room the sequence has.
  std::int64_t reachable(SeqId seq, std::int64_t computed, std::int64_t end) const;
  // Tokens the sequence has room for. Up to there, and if no group has a window, extend() is kNow and changes nothing
  // once it has been called.
  std::int64_t room(SeqId seq) const;
  // Where a step that could compute [computed, end) had better end: where commit() will keep the sequence's recurrent
  // state, else `end`.
  std::int64_t step_end(SeqId seq, std::int64_t computed, std::int64_t end) const;

  // Tokens [0, computed) of `text` are now in the cache: full blocks become findable, and at a place that step_end()
  // gave the recurrent state is kept if there are blocks for it. Changes nothing unless a block has become full since
  // the last commit().
  void commit(SeqId seq, Text text, std::int64_t computed);

  // Ends the sequence (finished, cancelled or preempted). Its cached blocks stay findable while idle. `names`: gets
  // them, for a sequence that will begin again.
  void free(SeqId seq, PrefixNames* names = nullptr);

  // Physical block of each logical block; -1 where the window has passed. Valid until the next non-const call for this
  // sequence.
  std::span<const std::int32_t> block_table(SeqId seq, int group) const;

  // The blocks of the sequence's recurrent state: from begin() on if a prefix was found, with the state that follows
  // it; else from the first extend() on, with whatever they held before.
  std::span<const std::int32_t> state_blocks(SeqId seq) const;

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
