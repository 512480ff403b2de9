// Trie: byte strings -> numbers, walked byte by byte: the longest match, or every match, at a place in a text.
//
// Immutable once built; any number of threads. Memory: some 20 bytes per node. Cost of a step: a binary search among a
// node's edges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::text {

class Trie {
 public:
  static constexpr std::int32_t kNone = -1;

  Trie() = default;
  // Of equal strings the first one stays. Empty strings are left out. The strings are needed during the call only.
  explicit Trie(std::vector<std::pair<std::string_view, std::int32_t>> entries);

  std::int32_t root() const { return 0; }
  std::int32_t child(std::int32_t node, unsigned char byte) const {
    const Node& n = nodes_[static_cast<std::size_t>(node)];
    const Edge* begin = edges_.data() + n.first_edge;
    const Edge* end = begin + n.num_edges;
    const Edge* found = std::lower_bound(begin, end, byte, [](const Edge& e, unsigned char b) { return e.byte < b; });
    return found != end && found->byte == byte ? found->node : kNone;
  }
  std::int32_t value(std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)].value; }

  // Calls found(size, value) for every entry that `text` begins with, shortest first.
  template <class Found>
  void prefixes(std::string_view text, Found found) const {
    std::int32_t node = root();
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == kNone) return;
      if (value(node) != kNone) found(i + 1, value(node));
    }
  }

 private:
  struct Edge {
    unsigned char byte;
    std::int32_t node;
  };
  struct Node {
    std::uint32_t first_edge = 0, num_edges = 0;  // edges_ [first, first + num), by byte
    std::int32_t value = kNone;
  };
  std::vector<Node> nodes_{Node{}};
  std::vector<Edge> edges_;
};

}  // namespace weir::text
