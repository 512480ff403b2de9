#include "api/stop_matcher.h"

#include <algorithm>

namespace weir::api {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)), nodes_(1) {
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    std::uint32_t at = 0;
    for (const char c : stops_[i]) {
      const auto byte = static_cast<unsigned char>(c);
      std::uint32_t to = child(at, byte);
      if (to == 0) {
        to = static_cast<std::uint32_t>(nodes_.size());
        nodes_.push_back({});
        nodes_[to].depth = nodes_[at].depth + 1;
        auto& next = nodes_[at].next;
        next.insert(std::lower_bound(next.begin(), next.end(), std::pair{byte, std::uint32_t{0}}), {byte, to});
      }
      at = to;
    }
    if (nodes_[at].stop < 0) nodes_[at].stop = static_cast<int>(i);
  }
  // Breadth first, so that a node's fail link, which is shallower, is complete when it is needed.
  std::vector<std::uint32_t> order = {0};
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::uint32_t parent = order[k];
    for (const auto& [byte, node] : nodes_[parent].next) {
      nodes_[node].fail = parent == 0 ? 0 : step(nodes_[parent].fail, byte);
      nodes_[node].output = nodes_[node].stop >= 0 ? node : nodes_[nodes_[node].fail].output;
      order.push_back(node);
    }
  }
}

std::uint32_t StopMatcher::child(std::uint32_t node, unsigned char byte) const {
  const auto& next = nodes_[node].next;
  const auto it = std::lower_bound(next.begin(), next.end(), std::pair{byte, std::uint32_t{0}});
  return it != next.end() && it->first == byte ? it->second : 0;
}

std::uint32_t StopMatcher::step(std::uint32_t node, unsigned char byte) const {
  while (true) {
    if (const std::uint32_t to = child(node, byte); to != 0) return to;
    if (node == 0) return 0;
    node = nodes_[node].fail;
  }
}

std::optional<StopMatcher::Match> StopMatcher::Scan::feed(std::string_view piece) {
  std::optional<Match> best;
  for (const char c : piece) {
    state_ = matcher_->step(state_, static_cast<unsigned char>(c));
    ++read_;
    // The first string on the output chain is the longest one that ends here, so the one that begins first.
    const std::uint32_t output = matcher_->nodes_[state_].output;
    if (output == 0) continue;
    const std::size_t begin = read_ - matcher_->nodes_[output].depth;
    if (!best || begin < best->begin) best = Match{begin, read_, matcher_->nodes_[output].stop};
  }
  return best;
}

}  // namespace weir::api
