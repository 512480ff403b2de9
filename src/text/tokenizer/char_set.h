// CharSet: the set of characters that one [...], \p{...}, \s or single character of a regular expression means.
//
// Names and contents are Oniguruma's (the engine behind tokenizer.json patterns) over Unicode 16. Immutable once
// sealed. Cost of contains(): one bit for ASCII, else a category look-up and what the set lists besides.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer/unicode.h"

namespace weir::text {

class CharSet {
 public:
  static CharSet of_class(CharClass cls, bool negated = false);
  static CharSet of_char(char32_t code);
  static CharSet of_range(char32_t first, char32_t last);
  // Of \p{name} and [:name:]; case, spaces, '-' and '_' do not matter. nullopt: no such property.
  static std::optional<CharSet> of_property(std::string_view name);
  // \w inside brackets; outside of them, and for \b, Oniguruma counts some Latin-1 numbers (the superscripts and
  // fractions) too.
  static CharSet word();
  static CharSet word_alone();

  void add(CharSet other);        // union
  void intersect(CharSet other);  // everything added so far and `other`
  void negate() { negated_ = !negated_; }
  void ignore_case() { ignore_case_ = true; }  // of the members themselves, before negation
  // Call once at the end: fills the table for ASCII.
  void seal();

  bool contains(char32_t code) const { return code < 0x80 ? ascii_[code] : contains_slowly(code); }
  std::optional<char32_t> single() const;  // the one character of a set made by of_char

 private:
  bool contains_slowly(char32_t code) const;
  bool lists(char32_t code) const;

  CharClass classes_ = 0;
  std::vector<std::pair<char32_t, char32_t>> ranges_;
  std::vector<std::uint8_t> scripts_;  // indices of unicode_tables::kScriptNames
  std::uint8_t properties_ = 0;        // unicode_tables::Property
  std::vector<CharSet> members_;       // of the union
  std::vector<CharSet> limits_;        // intersected
  bool negated_ = false, ignore_case_ = false;
  std::bitset<128> ascii_;
};

// The other cases of a letter (simple mappings, long s and the Kelvin sign included), itself first.
struct CaseVariants {
  char32_t codes[5];
  int count;
};
CaseVariants case_variants(char32_t code);

}  // namespace weir::text
