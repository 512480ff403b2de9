// PrefixIndex: which block holds the keys and values of a given piece of text.
//
// What a block holds depends on all tokens before it, so its name is a chain: root(salt), then child(parent, tokens)
// per block. A name together with the KV group says exactly what a block contains. Names are pure functions of their
// arguments and may be kept for as long as the index lives; a sequence keeps its own, so no text is named twice.
//
// Invariants
//   A block has at most one entry, and a (name, group) at most one block: the first one inserted stays.
//   find() returns a block only if its token ids equal the ones asked for, whatever the names say.
// Threads: engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace weir::kv {

enum class PrefixIndexKind { kNone, kHash, kRadix };

// The value of --prefix-index. Refuses unknown names and kinds this build does not have.
Result<PrefixIndexKind> parse_prefix_index(std::string_view name);

struct BlockName {
  std::array<std::uint8_t, 32> bytes{};
  friend bool operator==(const BlockName&, const BlockName&) = default;
};

class PrefixIndex {
 public:
  virtual ~PrefixIndex() = default;

  // The name before the first block, of one model and one salt (texts of different salts share nothing).
  virtual BlockName root(std::string_view salt) = 0;
  virtual BlockName child(const BlockName& parent, std::span<const TokenId> block_tokens) = 0;

  virtual std::optional<BlockId> find(const BlockName& name, int group,
                                      std::span<const TokenId> block_tokens) const = 0;
  // False, and nothing changes: another block is already known by that name.
  virtual bool insert(BlockId block, const BlockName& name, int group, std::span<const TokenId> block_tokens) = 0;
  virtual void erase(BlockId block) = 0;  // must have an entry
  virtual bool contains(BlockId block) const = 0;
  virtual std::uint32_t size() const = 0;

  virtual void check_integrity() const = 0;
};

// `model_id` and `block_tokens` become part of every name. Null for kNone.
std::unique_ptr<PrefixIndex> make_prefix_index(PrefixIndexKind kind, std::string_view model_id, int block_tokens,
                                               std::uint32_t num_blocks);

}  // namespace weir::kv
