// The text of a regular expression -> a tree. Syntax and meaning are Oniguruma's with Ruby syntax, which is what the
// tokenizers library gives the patterns of a tokenizer.json to: '^' and '$' are line ends, "(?m)" lets '.' match a line
// end, "{n,m}+" repeats. Source: Oniguruma's doc/RE.
//
// Not there, and refused by name: back references, calls, conditionals, absence, \K, \X, look-behind without a fixed
// length. Hostile patterns: size, nesting and the tree are bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/char_set.h"

namespace weir::text {

enum class Anchor : std::uint8_t { kTextBegin, kTextEnd, kTextEndOrLastNewline, kLineBegin, kLineEnd, kWord, kNoWord };

struct RegexNode;
using RegexNodePtr = std::unique_ptr<RegexNode>;

struct RegexNode {
  enum class Kind : std::uint8_t { kEmpty, kSet, kConcat, kAlternate, kRepeat, kLook, kAtomic, kAnchor };
  static constexpr std::uint32_t kUnbounded = 0xFFFFFFFF;

  Kind kind = Kind::kEmpty;
  std::uint32_t set = 0;                  // kSet: index of ParsedRegex::sets
  std::vector<RegexNodePtr> children;     // kConcat, kAlternate: all; kRepeat, kLook, kAtomic: one
  std::uint32_t min = 0, max = 0;         // kRepeat
  bool lazy = false;                      // kRepeat
  bool negative = false, behind = false;  // kLook
  Anchor anchor = Anchor::kTextBegin;     // kAnchor
};

struct ParsedRegex {
  RegexNodePtr root;
  std::vector<CharSet> sets;  // sealed
};

Result<ParsedRegex> parse_regex(std::string_view pattern);

}  // namespace weir::text
