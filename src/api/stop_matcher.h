// StopMatcher: finds the first of several stop strings in a text that comes in pieces, and says how much of the text is
// safe to show.
//
// An Aho-Corasick automaton over bytes (Aho and Corasick 1975): its state after a text is the longest end of the text
// that begins some stop string, which is exactly what must be held back. Time: one step per byte, amortised, however
// many strings. A StopMatcher is immutable and shared by the choices of a request; each choice has a Scan.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::api {

class StopMatcher {
 public:
  struct Match {
    std::size_t begin = 0, end = 0;  // bytes of the whole text
    int index = 0;                   // which stop string
  };

  // `stops`: none empty.
  explicit StopMatcher(std::vector<std::string> stops);

  const std::vector<std::string>& stops() const { return stops_; }

  class Scan {
   public:
    explicit Scan(const StopMatcher& matcher) : matcher_(&matcher) {}
    // Reads the next piece. The match that begins first among those that end inside this piece (of those, the
    // shortest).
    std::optional<Match> feed(std::string_view piece);
    // Bytes at the end of the text that may be the beginning of a stop string.
    std::size_t held_back() const { return matcher_->nodes_[state_].depth; }

   private:
    const StopMatcher* matcher_;
    std::uint32_t state_ = 0;
    std::size_t read_ = 0;
  };

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> next;  // sorted by byte
    std::uint32_t fail = 0;    // node of the longest proper end of this one that is a beginning too
    std::uint32_t output = 0;  // nearest node on the fail chain, from here on, at which a stop string ends; 0 = none
    std::uint32_t depth = 0;
    int stop = -1;  // the string that ends here
  };

  std::uint32_t child(std::uint32_t node, unsigned char byte) const;
  std::uint32_t step(std::uint32_t node, unsigned char byte) const;

  std::vector<std::string> stops_;
  std::vector<Node> nodes_;
};

}  // namespace weir::api
