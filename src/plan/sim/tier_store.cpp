#include "plan/sim/tier_store.h"

#include "plan/sim/workload.h"

namespace weir::plan::sim {

void TierStore::insert(std::size_t tier, std::uint64_t key) {
  for (; tier < tiers_.size(); ++tier) {
    Tier& here = tiers_[tier];
    if (here.capacity == 0) continue;
    here.order.push_front(key);
    places_[key] = {tier, here.order.begin()};
    if (static_cast<std::int64_t>(here.order.size()) <= here.capacity) return;
    key = here.order.back();
    here.order.pop_back();
  }
  places_.erase(key);
}

void TierStore::put(std::span<const std::uint64_t> keys) {
  for (std::size_t i = keys.size(); i > 0; --i) {
    const auto it = places_.find(keys[i - 1]);
    if (it != places_.end()) {
      tiers_[it->second.tier].order.erase(it->second.at);
      places_.erase(it);
    }
    insert(0, keys[i - 1]);
  }
}

std::vector<std::int64_t> TierStore::find(std::span<const std::uint64_t> keys, std::size_t skip) const {
  std::vector<std::int64_t> found(tiers_.size(), 0);
  for (std::size_t i = skip; i < keys.size(); ++i) {
    const auto it = places_.find(keys[i]);
    if (it == places_.end()) break;
    ++found[it->second.tier];
  }
  return found;
}

std::vector<std::uint64_t> tier_keys(std::span<const TokenId> outline, std::int64_t blocks) {
  std::vector<std::uint64_t> keys;
  keys.reserve(static_cast<std::size_t>(blocks));
  std::uint64_t key = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (int i = 0; i < kOutlineIds; ++i) {
      key = mix(key, static_cast<std::uint32_t>(outline[static_cast<std::size_t>(b * kOutlineIds + i)]));
    }
    keys.push_back(key);
  }
  return keys;
}

}  // namespace weir::plan::sim
