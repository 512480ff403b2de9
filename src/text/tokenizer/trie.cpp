#include "text/tokenizer/trie.h"

namespace weir::text {

// Level by level: a node owns the sorted entries [begin, end), which share their first `depth` bytes.
Trie::Trie(std::vector<std::pair<std::string_view, std::int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
  struct Pending {
    std::size_t node, begin, end, depth;
  };
  std::vector<Pending> queue{{0, 0, entries.size(), 0}};
  for (std::size_t q = 0; q < queue.size(); ++q) {
    auto [node, begin, end, depth] = queue[q];
    if (begin < end && entries[begin].first.size() == depth) {
      if (depth > 0) nodes_[node].value = entries[begin].second;
      ++begin;
    }
    nodes_[node].first_edge = static_cast<std::uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      std::size_t stop = begin;
      while (stop < end && entries[stop].first[depth] == byte) ++stop;
      const std::size_t to = nodes_.size();
      nodes_.emplace_back();
      edges_.push_back({static_cast<unsigned char>(byte), static_cast<std::int32_t>(to)});
      ++nodes_[node].num_edges;
      queue.push_back({to, begin, stop, depth + 1});
      begin = stop;
    }
  }
}

}  // namespace weir::text
