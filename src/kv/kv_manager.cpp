#include "kv/kv_manager.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "kv/block_pool.h"

namespace weir::kv {

namespace {

constexpr std::int32_t kNoBlock = -1;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}

struct GroupTable {
  std::vector<std::int32_t> blocks;  // by logical block; kNoBlock before first_live
  std::int64_t first_live = 0;       // what is before has left the window
};

struct Sequence {
  std::vector<GroupTable> tables;   // by group; all equally long
  std::int64_t columns = 0;         // that length: logical blocks there is room for
  std::vector<std::int32_t> state;  // blocks of recurrent state, all of them or none yet
  // The state is kept when so many tokens are computed; 0: nowhere.
  std::int64_t keep_where_parted = 0, keep_at_end = 0;
  std::int64_t committed = 0;  // logical blocks that are full, computed and offered to the prefix index
  std::string salt;
  PrefixNames names;
};

}  // namespace

struct KvManager::Impl {
  explicit Impl(KvConfig given)
      : config(std::move(given)),
        pool(config.num_blocks),
        index(make_prefix_index(config.prefix_index, config.model_id, ids_per_block(), config.num_blocks)),
        run(config.layout.groups.size()) {
    CHECK(!config.layout.groups.empty() && config.layout.block_tokens > 0, "{} groups, {} tokens per block",
          config.layout.groups.size(), config.layout.block_tokens);
    // Tables hold block numbers as int32.
    CHECK(config.num_blocks <= std::numeric_limits<std::int32_t>::max(), "{} blocks", config.num_blocks);
  }

  std::int64_t block_tokens() const { return config.layout.block_tokens; }
  int ids_per_block() const { return config.ids_per_block > 0 ? config.ids_per_block : config.layout.block_tokens; }
  std::size_t groups() const { return config.layout.groups.size(); }
  int window(std::size_t group) const { return config.layout.groups[group].window; }

  // First logical block that the query at position `computed`, and hence any later one, sees in this group.
  std::int64_t first_visible(std::size_t group, std::int64_t computed) const {
    if (window(group) == 0) return 0;
    return std::max<std::int64_t>(0, computed - window(group) + 1) / block_tokens();
  }

  std::span<const TokenId> ids_of(const Text& text, std::int64_t block) const {
    const auto count = static_cast<std::size_t>(ids_per_block());
    return text.ids.subspan(static_cast<std::size_t>(block) * count, count);
  }

  const Sequence& get(SeqId seq) const {
    const auto it = sequences.find(value(seq));
    CHECK(it != sequences.end(), "sequence {} has not begun", value(seq));
    return it->second;
  }
  Sequence& get(SeqId seq) { return const_cast<Sequence&>(std::as_const(*this).get(seq)); }

  const BlockName& name_of(PrefixNames& names, std::string_view salt, const Text& text, std::int64_t block) {
    if (!names.has_root) {
      names.root = index->root(salt);
      names.has_root = true;
    }
    while (static_cast<std::int64_t>(names.blocks.size()) <= block) {
      const auto next = static_cast<std::int64_t>(names.blocks.size());
      const BlockName& parent = names.blocks.empty() ? names.root : names.blocks.back();
      names.blocks.push_back(index->child(parent, ids_of(text, next)));
    }
    return names.blocks[static_cast<std::size_t>(block)];
  }

  // In logical blocks.
  struct Match {
    std::int64_t length = 0;     // of the longest cached prefix
    std::int64_t stateless = 0;  // the same if no state were needed
  };

  // The longest cached prefix that is valid in every group: full groups need all of its blocks, window groups those
  // that the first query after it sees; and its recurrent state must have been kept.
  Match match(const Text& text, std::string_view salt, PrefixNames& names) {
    Match best;
    if (!index) return best;
    const std::int64_t limit = (text.tokens - 1) / block_tokens();
    std::fill(run.begin(), run.end(), 0);
    for (std::int64_t length = 1; length <= limit; ++length) {
      const BlockName& name = name_of(names, salt, text, length - 1);
      bool valid = true;
      for (std::size_t g = 0; g < groups(); ++g) {
        const bool found = index->find(name, static_cast<int>(g), ids_of(text, length - 1)).has_value();
        run[g] = found ? run[g] + 1 : 0;
        if (!found && window(g) == 0) return best;
        valid = valid && run[g] >= length - first_visible(g, length * block_tokens());
      }
      if (!valid) continue;
      best.stateless = length;
      if (has_state(name, ids_of(text, length - 1))) best.length = length;
    }
    return best;
  }

  // Blocks of kept state are known to the index by groups of their own, behind those of the layout.
  std::optional<BlockId> find_state(const BlockName& name, std::span<const TokenId> ids, std::int64_t part) const {
    return index->find(name, static_cast<int>(static_cast<std::int64_t>(groups()) + part), ids);
  }
  bool has_state(const BlockName& name, std::span<const TokenId> ids) const {
    for (std::int64_t part = 0; part < config.layout.state_blocks; ++part) {
      if (!find_state(name, ids, part)) return false;
    }
    return true;
  }

  void copy(BlockId from, std::int32_t to) const {
    if (config.on_copy) config.on_copy(from, BlockId{static_cast<std::uint32_t>(to)});
  }

  // Keeps the state after logical blocks [0, length) of `text`, or what there are blocks for.
  void keep_state(Sequence& s, const Text& text, std::int64_t length) {
    const BlockName& name = name_of(s.names, s.salt, text, length - 1);
    const std::span<const TokenId> ids = ids_of(text, length - 1);
    std::vector<BlockId> kept;  // in use until all are there, or one would make room for the next
    for (std::int64_t part = 0; part < config.layout.state_blocks; ++part) {
      const auto found = find_state(name, ids, part);
      if (found) {
        pool.retain(*found);
        kept.push_back(*found);
        continue;
      }
      if (pool.free() + pool.idle() == 0) break;
      const BlockId block{static_cast<std::uint32_t>(acquire())};
      copy(BlockId{static_cast<std::uint32_t>(s.state[static_cast<std::size_t>(part)])},
           static_cast<std::int32_t>(value(block)));
      index->insert(block, name, static_cast<int>(static_cast<std::int64_t>(groups()) + part), ids);
      kept.push_back(block);
    }
    for (const BlockId block : kept) release(block);
  }

  // Gives the sequence a copy of the state after logical blocks [0, length), which is kept; or, where blocks are too
  // few for a copy, the kept state itself.
  void restore_state(Sequence& s, const Text& text, std::int64_t length) {
    const std::span<const TokenId> ids = ids_of(text, length - 1);
    std::vector<BlockId> kept;
    for (std::int64_t part = 0; part < config.layout.state_blocks; ++part) {
      const auto found = find_state(s.names.blocks[static_cast<std::size_t>(length - 1)], ids, part);
      CHECK(found.has_value(), "block {} of the state after block {} was found and is gone", part, length - 1);
      pool.retain(*found);
      kept.push_back(*found);
    }
    const bool room = static_cast<std::int64_t>(pool.free() + pool.idle()) >= config.layout.state_blocks;
    for (const BlockId block : kept) {
      if (!room) {
        index->erase(block);
        s.state.push_back(static_cast<std::int32_t>(value(block)));
        continue;
      }
      s.state.push_back(acquire());
      copy(block, s.state.back());
    }
    for (const BlockId block : kept) {
      if (room) release(block);
    }
  }

  // Blocks that leave the windows when the next query is at `computed`, and how many of them nobody else uses.
  std::int64_t releasable(const Sequence& s, std::int64_t computed) const {
    std::int64_t count = 0;
    for (std::size_t g = 0; g < groups(); ++g) {
      const GroupTable& table = s.tables[g];
      const std::int64_t end = std::min(first_visible(g, computed), s.columns);
      for (std::int64_t i = table.first_live; i < end; ++i) {
        count += pool.references(block_at(table, i)) == 1;
      }
    }
    return count;
  }

  static BlockId block_at(const GroupTable& table, std::int64_t column) {
    const std::int32_t block = table.blocks[static_cast<std::size_t>(column)];
    CHECK(block != kNoBlock, "logical block {} has left the window", column);
    return BlockId{static_cast<std::uint32_t>(block)};
  }

  void release(BlockId block) {
    const bool keep = index && index->contains(block);
    if (pool.release(block, keep) == BlockPool::Release::kFree) discard(block);
  }

  std::int32_t acquire() {
    const auto taken = pool.acquire();
    CHECK(taken.has_value(), "the pool is smaller than it said");
    if (taken->evicted) {
      index->erase(taken->block);
      discard(taken->block);
    }
    return static_cast<std::int32_t>(value(taken->block));
  }

  void discard(BlockId block) const {
    if (config.on_discard) config.on_discard(block);
  }

  // Blocks of recurrent state that the sequence has yet to get.
  std::int64_t missing_state(const Sequence& s) const {
    return config.layout.state_blocks - static_cast<std::int64_t>(s.state.size());
  }

  void leave_windows(Sequence& s, std::int64_t computed) {
    for (std::size_t g = 0; g < groups(); ++g) {
      GroupTable& table = s.tables[g];
      const std::int64_t end = std::min(first_visible(g, computed), s.columns);
      for (std::int64_t i = end - 1; i >= table.first_live; --i) {  // the tail becomes idle first and is evicted first
        release(block_at(table, i));
        table.blocks[static_cast<std::size_t>(i)] = kNoBlock;
      }
      table.first_live = std::max(table.first_live, end);
    }
  }

  void check_sequence(std::uint64_t id, const Sequence& s, std::vector<std::uint32_t>& references) const;

  KvConfig config;
  BlockPool pool;
  std::unique_ptr<PrefixIndex> index;  // null: no prefix caching
  std::unordered_map<std::uint64_t, Sequence> sequences;
  std::vector<std::int64_t> run;  // match(): by group, cached blocks in a row up to the current one
};

KvManager::KvManager(KvConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
KvManager::~KvManager() = default;

const KvLayout& KvManager::layout() const {
  return impl_->config.layout;
}
std::uint32_t KvManager::capacity() const {
  return impl_->config.num_blocks;
}

std::uint32_t KvManager::blocks_needed(std::int64_t tokens, std::int64_t step_tokens) const {
  return impl_->config.layout.blocks_needed(tokens, step_tokens);
}

std::int64_t KvManager::begin(SeqId seq, Text text, std::string_view salt, bool use_prefix, PrefixNames* names,
                              std::int64_t expected_tokens) {
  CHECK(text.tokens > 0, "sequence {} has no tokens", value(seq));
  const auto [it, is_new] = impl_->sequences.try_emplace(value(seq));
  CHECK(is_new, "sequence {} has already begun", value(seq));
  Sequence& s = it->second;
  s.salt = salt;
  s.tables.resize(impl_->groups());
  if (names != nullptr) s.names = std::move(*names);
  const auto columns = static_cast<std::size_t>(ceil_div(expected_tokens, impl_->block_tokens()));
  for (GroupTable& table : s.tables) table.blocks.reserve(columns);
  if (impl_->index) s.names.blocks.reserve(columns);
  const bool states = impl_->index && impl_->config.layout.state_blocks > 0;
  if (states) s.keep_at_end = (text.tokens - 1) / impl_->block_tokens() * impl_->block_tokens();
  if (!use_prefix) return 0;

  const Impl::Match match = impl_->match(text, salt, s.names);
  const std::int64_t length = match.length;
  if (states) s.keep_where_parted = match.stateless * impl_->block_tokens();
  for (std::size_t g = 0; g < impl_->groups(); ++g) {
    GroupTable& table = s.tables[g];
    table.first_live = std::min(impl_->first_visible(g, length * impl_->block_tokens()), length);
    table.blocks.assign(static_cast<std::size_t>(length), kNoBlock);
    for (std::int64_t i = table.first_live; i < length; ++i) {
      const auto found =
          impl_->index->find(s.names.blocks[static_cast<std::size_t>(i)], static_cast<int>(g), impl_->ids_of(text, i));
      CHECK(found.has_value(), "logical block {} of group {} was found and is gone", i, g);
      impl_->pool.retain(*found);
      table.blocks[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(value(*found));
    }
  }
  s.columns = s.committed = length;
  if (states && length > 0) impl_->restore_state(s, text, length);
  return length * impl_->block_tokens();
}

PrefixHit KvManager::find_prefix(Text text, std::string_view salt, PrefixNames& names) const {
  PrefixHit hit;
  if (text.tokens == 0) return hit;
  const std::int64_t length = impl_->match(text, salt, names).length;
  hit.tokens = length * impl_->block_tokens();
  for (std::size_t g = 0; g < impl_->groups(); ++g) {
    // Blocks that will leave the window before the text is computed make no room when they go, for others hold them.
    const int window = impl_->window(g);
    if (window > 0 && text.tokens > window) continue;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto found =
          impl_->index->find(names.blocks[static_cast<std::size_t>(i)], static_cast<int>(g), impl_->ids_of(text, i));
      hit.shared_blocks += impl_->pool.references(found.value()) > 0;
    }
  }
  return hit;
}

std::int64_t KvManager::peek_prefix(Text text, std::string_view salt) const {
  PrefixNames names;
  return find_prefix(text, salt, names).tokens;
}

Fit KvManager::extend(SeqId seq, std::int64_t computed, std::int64_t end) {
  Sequence& s = impl_->get(seq);
  CHECK(0 <= computed && computed <= end, "sequence {}: {} tokens computed, room for {} asked", value(seq), computed,
        end);
  const auto groups = static_cast<std::int64_t>(impl_->groups());
  const std::int64_t columns = std::max(s.columns, ceil_div(end, impl_->block_tokens()));
  const std::int64_t fresh = (columns - s.columns) * groups + impl_->missing_state(s);
  if (fresh > available() + impl_->releasable(s, computed)) {
    std::int64_t held = fresh + static_cast<std::int64_t>(s.state.size());
    for (std::size_t g = 0; g < impl_->groups(); ++g) {
      held +=
          std::max<std::int64_t>(0, s.columns - std::max(s.tables[g].first_live, impl_->first_visible(g, computed)));
    }
    return held > capacity() ? Fit::kNever : Fit::kNotNow;
  }
  impl_->leave_windows(s, computed);
  while (impl_->missing_state(s) > 0) s.state.push_back(impl_->acquire());
  for (; s.columns < columns; ++s.columns) {
    for (GroupTable& table : s.tables) table.blocks.push_back(impl_->acquire());
  }
  return Fit::kNow;
}

std::int64_t KvManager::reachable(SeqId seq, std::int64_t computed, std::int64_t end) const {
  const Sequence& s = impl_->get(seq);
  const std::int64_t takeable =
      std::max<std::int64_t>(0, available() + impl_->releasable(s, computed) - impl_->missing_state(s));
  const std::int64_t columns = s.columns + takeable / static_cast<std::int64_t>(impl_->groups());
  return std::min(end, columns * impl_->block_tokens());
}

std::int64_t KvManager::room(SeqId seq) const {
  return impl_->get(seq).columns * impl_->block_tokens();
}

std::int64_t KvManager::step_end(SeqId seq, std::int64_t computed, std::int64_t end) const {
  const Sequence& s = impl_->get(seq);
  for (const std::int64_t place : {s.keep_where_parted, s.keep_at_end}) {
    if (computed < place && place < end) end = place;
  }
  return end;
}

void KvManager::commit(SeqId seq, Text text, std::int64_t computed) {
  Sequence& s = impl_->get(seq);
  CHECK(computed <= text.tokens, "{} of {} tokens computed", computed, text.tokens);
  CHECK(computed <= s.columns * impl_->block_tokens(), "{} tokens computed in {} blocks", computed, s.columns);
  if (!impl_->index) return;
  const std::int64_t before = s.committed;
  for (; (s.committed + 1) * impl_->block_tokens() <= computed; ++s.committed) {
    const BlockName& name = impl_->name_of(s.names, s.salt, text, s.committed);
    for (std::size_t g = 0; g < impl_->groups(); ++g) {
      if (s.committed < s.tables[g].first_live) continue;
      impl_->index->insert(Impl::block_at(s.tables[g], s.committed), name, static_cast<int>(g),
                           impl_->ids_of(text, s.committed));
    }
  }
  const bool keep = computed == s.keep_where_parted || computed == s.keep_at_end;
  if (keep && s.committed > before && !s.state.empty()) impl_->keep_state(s, text, s.committed);
}

void KvManager::free(SeqId seq, PrefixNames* names) {
  Sequence& s = impl_->get(seq);
  // Column by column from the tail: what is evicted first is what the fewest texts share, and groups lose a column
  // together.
  for (std::int64_t i = s.columns - 1; i >= 0; --i) {
    bool live = false;
    for (const GroupTable& table : s.tables) {
      if (i < table.first_live) continue;
      impl_->release(Impl::block_at(table, i));
      live = true;
    }
    if (!live) break;
  }
  for (const std::int32_t block : s.state) impl_->release(BlockId{static_cast<std::uint32_t>(block)});
  if (names != nullptr) *names = std::move(s.names);
  impl_->sequences.erase(value(seq));
}

std::span<const std::int32_t> KvManager::block_table(SeqId seq, int group) const {
  const Sequence& s = impl_->get(seq);
  CHECK(group >= 0 && static_cast<std::size_t>(group) < s.tables.size(), "group {} of {}", group, s.tables.size());
  return s.tables[static_cast<std::size_t>(group)].blocks;
}

std::span<const std::int32_t> KvManager::state_blocks(SeqId seq) const {
  return impl_->get(seq).state;
}

KvStats KvManager::stats() const {
  const BlockPool& pool = impl_->pool;
  return {pool.capacity(), pool.free(), pool.idle(), pool.in_use()};
}

std::uint32_t KvManager::available() const {
  return impl_->pool.free() + impl_->pool.idle();
}

void KvManager::clear_cache() {
  while (const auto block = impl_->pool.oldest_idle()) {
    impl_->index->erase(*block);
    impl_->pool.forget(*block);
    impl_->discard(*block);
  }
}

void KvManager::Impl::check_sequence(std::uint64_t id, const Sequence& s,
                                     std::vector<std::uint32_t>& references) const {
  CHECK(s.committed <= s.columns, "sequence {}: {} of {} blocks committed", id, s.committed, s.columns);
  CHECK(s.state.empty() || missing_state(s) == 0, "sequence {} has {} blocks of state", id, s.state.size());
  for (const std::int32_t entry : s.state) {
    const BlockId block{static_cast<std::uint32_t>(entry)};
    ++references[value(block)];
    CHECK(pool.references(block) == 1 && !(index && index->contains(block)),
          "sequence {} will write block {} of its state, which has {} references", id, entry, pool.references(block));
  }
  for (std::size_t g = 0; g < groups(); ++g) {
    const GroupTable& table = s.tables[g];
    CHECK(static_cast<std::int64_t>(table.blocks.size()) == s.columns, "sequence {} group {}: {} entries, {} columns",
          id, g, table.blocks.size(), s.columns);
    CHECK(window(g) > 0 || table.first_live == 0, "sequence {} gave back blocks of a full-attention group", id);
    for (std::int64_t i = 0; i < s.columns; ++i) {
      const std::int32_t entry = table.blocks[static_cast<std::size_t>(i)];
      CHECK((entry == kNoBlock) == (i < table.first_live), "sequence {} group {}: entry {} is {}", id, g, i, entry);
      if (entry == kNoBlock) continue;
      const BlockId block{static_cast<std::uint32_t>(entry)};
      ++references[value(block)];
      const bool cached = index && index->contains(block);
      CHECK(i < s.committed || (pool.references(block) == 1 && !cached),
            "sequence {} will write block {}, which has {} references, cached {}", id, entry, pool.references(block),
            cached);
    }
  }
}

void KvManager::check_integrity() const {
  const Impl& impl = *impl_;
  impl.pool.check_integrity();
  if (impl.index) impl.index->check_integrity();
  std::vector<std::uint32_t> references(capacity(), 0);
  for (const auto& [id, sequence] : impl.sequences) impl.check_sequence(id, sequence, references);
  for (std::uint32_t b = 0; b < capacity(); ++b) {
    const BlockId block{b};
    CHECK(references[b] == impl.pool.references(block), "block {}: {} references, {} table entries", b,
          impl.pool.references(block), references[b]);
    const bool cached = impl.index && impl.index->contains(block);
    CHECK(references[b] > 0 || impl.pool.is_idle(block) == cached, "block {}: idle {}, cached {}", b,
          impl.pool.is_idle(block), cached);
  }
}

}  // namespace weir::kv
