// HashPrefixIndex: names are SHA-256 digests, looked up in a hash table.
//
// SHA-256 because the text is an attacker's to choose: with a weak hash one client could make its text collide with
// another's and read its cache. Nothing is allocated per block: table, digests and token ids have room for every block
// of the pool from the start.
// Cost: child() one digest of 32 + 4 * block_tokens bytes; everything else O(1). Threads: engine thread only.
#pragma once

#include <string>
#include <vector>

#include "kv/prefix_index.h"

namespace weir::kv {

class HashPrefixIndex final : public PrefixIndex {
 public:
  HashPrefixIndex(std::string_view model_id, int block_tokens, std::uint32_t num_blocks);
  ~HashPrefixIndex() override;

  BlockName root(std::string_view salt) override;
  BlockName child(const BlockName& parent, std::span<const TokenId> block_tokens) override;
  std::optional<BlockId> find(const BlockName& name, int group, std::span<const TokenId> block_tokens) const override;
  bool insert(BlockId block, const BlockName& name, int group, std::span<const TokenId> block_tokens) override;
  void erase(BlockId block) override;
  bool contains(BlockId block) const override { return entries_[value(block)].group != kNoEntry; }
  std::uint32_t size() const override { return size_; }
  void check_integrity() const override;

 private:
  static constexpr int kNoEntry = -1;
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};

  struct Entry {
    BlockName name;
    int group = kNoEntry;
    std::uint32_t next = kEnd;  // in its bucket
  };

  std::size_t bucket(const BlockName& name, int group) const;
  std::uint32_t lookup(const BlockName& name, int group) const;  // kEnd: none
  std::span<const TokenId> tokens_of(std::uint32_t block) const;

  struct Hasher;
  std::unique_ptr<Hasher> hasher_;
  std::string model_id_;
  std::size_t block_tokens_;
  std::vector<std::uint32_t> buckets_;  // first block of each bucket; a power of two of them
  std::vector<Entry> entries_;          // by block
  std::vector<TokenId> tokens_;         // by block, block_tokens_ each
  std::uint32_t size_ = 0;
};

}  // namespace weir::kv
