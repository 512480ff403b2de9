// AddedTokens: the tokens that are found in the text itself, before any merging: the longest match at the leftmost
// place.
//
// Immutable after build; any number of threads. Cost of a search: the text's length times the longest token at worst; a
// two-byte filter makes it one look-up per byte where nothing matches.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "text/tokenizer.h"
#include "text/tokenizer/trie.h"

namespace weir::text {

struct AddedToken {
  TokenId id = 0;
  std::string content;                           // not empty
  bool control = false;                          // matched only where control tokens may be
  bool single_word = false;                      // not next to a word character
  bool strip_left = false, strip_right = false;  // takes the white space beside it along
};

// Where control tokens may be matched.
struct ControlRule {
  bool allowed = false;
  std::span<const ByteRange> forbidden = {};  // sorted, disjoint
};

class AddedTokens {
 public:
  struct Match {
    std::size_t begin = 0, end = 0;  // with the white space it takes along
    TokenId id = 0;
  };

  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  // Goes through the matches of one text.
  class Search {
   public:
    Search(const AddedTokens& tokens, std::string_view text, ControlRule rule)
        : tokens_(tokens), text_(text), rule_(rule) {}
    std::optional<Match> next();

   private:
    const AddedToken* longest_at(std::size_t at);

    const AddedTokens& tokens_;
    std::string_view text_;
    ControlRule rule_;
    std::size_t at_ = 0;          // matches begin here or later, but for the white space they take along
    std::size_t end_ = 0;         // of the last match with what it took along
    std::size_t next_range_ = 0;  // the first forbidden range that ends behind `at`
  };

 private:
  bool may_begin(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  Trie trie_;                               // values: indices of tokens_
  std::bitset<256> single_bytes_;           // tokens of one byte
  std::vector<std::uint64_t> first_pairs_;  // bitmap over the first two bytes of longer tokens
};

}  // namespace weir::text
