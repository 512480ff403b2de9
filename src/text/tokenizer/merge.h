// The merge loop that all BPE models share: join the adjacent pair of best rank, the leftmost first, until no pair has
// a rank.
//
// Not recursive. Cost: up to kSmallRun symbols by scanning an array, beyond that n log n with a heap over a linked
// list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace weir::text {

struct Symbol {
  std::uint32_t begin = 0, size = 0;  // bytes of the word
  TokenId id = -1;                    // meaning of negative ids: the model's
};

struct Merge {
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
  std::uint32_t rank = kNoRank;  // lower is better
  TokenId id = -1;               // of the joined symbol
};

struct MergeWorkspace {
  struct Link {
    std::int32_t previous, next;
  };
  struct Entry {
    std::uint64_t key;  // rank, then position: the heap's order
    std::uint32_t
        size;  // of the joined symbol: symbols only grow, so an entry is stale unless the sizes still add up to it
    TokenId id;
  };
  std::vector<Merge> merges;
  std::vector<Link> links;
  std::vector<Entry> heap;
};

// Most words are shorter; there a scan of a few cache lines beats a heap.
inline constexpr std::size_t kSmallRun = 32;

template <class Find>
void merge_small(std::vector<Symbol>& symbols, const Find& find, MergeWorkspace& space) {
  auto& merges = space.merges;  // merges[i]: of symbols i and i+1
  merges.clear();
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) merges.push_back(find(symbols[i], symbols[i + 1]));
  std::size_t n = symbols.size();
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == Merge::kNoRank) break;
    symbols[best].size += symbols[best + 1].size;
    symbols[best].id = merges[best].id;
    const auto at = static_cast<std::ptrdiff_t>(best);
    const auto end = static_cast<std::ptrdiff_t>(n);
    std::move(symbols.begin() + at + 2, symbols.begin() + end, symbols.begin() + at + 1);
    std::move(merges.begin() + at + 1, merges.begin() + end - 1, merges.begin() + at);
    --n;
    if (best + 1 < n) merges[best] = find(symbols[best], symbols[best + 1]);
    if (best > 0) merges[best - 1] = find(symbols[best - 1], symbols[best]);
  }
  symbols.resize(n);
}

template <class Find>
void merge_large(std::vector<Symbol>& symbols, const Find& find, MergeWorkspace& space) {
  using Entry = MergeWorkspace::Entry;
  auto& [merges, links, heap] = space;
  const auto worse = [](const Entry& a, const Entry& b) { return a.key > b.key; };
  const auto count = static_cast<std::int32_t>(symbols.size());
  links.clear();
  heap.clear();
  const auto entry_for = [&](std::int32_t left, std::int32_t right) {
    const Symbol &l = symbols[static_cast<std::size_t>(left)], &r = symbols[static_cast<std::size_t>(right)];
    const Merge merge = find(l, r);
    return Entry{std::uint64_t{merge.rank} << 32 | static_cast<std::uint32_t>(left), l.size + r.size, merge.id};
  };
  const auto has_rank = [](const Entry& e) { return e.key >> 32 != Merge::kNoRank; };
  for (std::int32_t i = 0; i < count; ++i) {
    links.push_back({i - 1, i + 1 < count ? i + 1 : -1});
    if (i + 1 == count) break;
    if (const Entry e = entry_for(i, i + 1); has_rank(e)) heap.push_back(e);
  }
  std::make_heap(heap.begin(), heap.end(), worse);
  const auto add = [&](std::int32_t left, std::int32_t right) {
    if (const Entry e = entry_for(left, right); has_rank(e)) {
      heap.push_back(e);
      std::push_heap(heap.begin(), heap.end(), worse);
    }
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), worse);
    const Entry best = heap.back();
    heap.pop_back();
    const auto left = static_cast<std::int32_t>(best.key & 0xFFFFFFFF);
    Symbol& l = symbols[static_cast<std::size_t>(left)];
    auto& link = links[static_cast<std::size_t>(left)];
    if (l.size == 0 || link.next < 0) continue;
    Symbol& r = symbols[static_cast<std::size_t>(link.next)];
    if (l.size + r.size != best.size) continue;
    l.size = best.size;
    l.id = best.id;
    r.size = 0;
    link.next = links[static_cast<std::size_t>(link.next)].next;
    if (link.next >= 0) {
      links[static_cast<std::size_t>(link.next)].previous = left;
      add(left, link.next);
    }
    if (link.previous >= 0) add(link.previous, left);
  }
  std::erase_if(symbols, [](const Symbol& s) { return s.size == 0; });
}

// `find`: Merge(const Symbol& left, const Symbol& right). Leaves the symbols that no rank joins.
template <class Find>
void merge_symbols(std::vector<Symbol>& symbols, const Find& find, MergeWorkspace& space) {
  if (symbols.size() <= kSmallRun) {
    merge_small(symbols, find, space);
  } else {
    merge_large(symbols, find, space);
  }
}

}  // namespace weir::text
