// TierStore: the KV blocks that lie in the tiers below an instance's pool: which are there, in which tier.
//
// Each tier keeps the blocks used last; what it drops goes to the next one, what the last one drops is gone. A block is
// in one tier at most. Keys name a block and all text before it. Cost: O(1) a block. Threads: none.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

namespace weir::plan::sim {

class TierStore {
 public:
  explicit TierStore(std::vector<std::int64_t> capacity_blocks) : tiers_(capacity_blocks.size()) {
    for (std::size_t i = 0; i < tiers_.size(); ++i) tiers_[i].capacity = capacity_blocks[i];
  }

  // The blocks are the youngest of the first tier now, a text's head younger than its tail.
  void put(std::span<const std::uint64_t> keys);
  // Leading blocks found in any tier, counted from block `skip`, which need not be here itself: by tier.
  std::vector<std::int64_t> find(std::span<const std::uint64_t> keys, std::size_t skip) const;

  std::int64_t size(std::size_t tier) const { return static_cast<std::int64_t>(tiers_[tier].order.size()); }

 private:
  struct Tier {
    std::int64_t capacity = 0;
    std::list<std::uint64_t> order;  // used last first
  };
  struct Place {
    std::size_t tier = 0;
    std::list<std::uint64_t>::iterator at;
  };
  void insert(std::size_t tier, std::uint64_t key);

  std::vector<Tier> tiers_;
  std::unordered_map<std::uint64_t, Place> places_;
};

// The keys of an outline's first `blocks` blocks.
std::vector<std::uint64_t> tier_keys(std::span<const TokenId> outline, std::int64_t blocks);

}  // namespace weir::plan::sim
