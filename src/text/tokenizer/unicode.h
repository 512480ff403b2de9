// Code points: strict UTF-8 decoding and general categories (Unicode 16, as the tokenizers library has them).
//
// A byte that starts no well-formed sequence counts as one character of length 1 in no class at all, so every scanner
// handles any bytes. Cost: a table look-up per character, ASCII without decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer/unicode_tables.h"

namespace weir::text {

inline constexpr char32_t kInvalidChar = 0x110000;

struct Char {
  char32_t code = kInvalidChar;
  unsigned size = 1;  // bytes
};

namespace detail {
Char decode_multibyte(std::string_view text, std::size_t at);
}

// The character at text[at]; at < text.size().
inline Char char_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) [[likely]]
    return {byte, 1};
  return detail::decode_multibyte(text, at);
}

// The start of the character that ends at text[end]; 0 < end <= text.size().
std::size_t previous_char(std::string_view text, std::size_t end);

void append_utf8(std::string& out, char32_t code);
bool valid_utf8(std::string_view text);

// A set of categories, one bit each; white space has a bit of its own.
using CharClass = std::uint32_t;

namespace char_class {
enum : unsigned {
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co,
  Cn
};
constexpr CharClass bit(unsigned category) {
  return CharClass{1} << category;
}
inline constexpr CharClass kUpper = bit(Lu), kLower = bit(Ll);
inline constexpr CharClass kLetter = bit(Lu) | bit(Ll) | bit(Lt) | bit(Lm) | bit(Lo);
inline constexpr CharClass kMark = bit(Mn) | bit(Mc) | bit(Me);
inline constexpr CharClass kNumber = bit(Nd) | bit(Nl) | bit(No);
inline constexpr CharClass kPunctuation = bit(Pc) | bit(Pd) | bit(Ps) | bit(Pe) | bit(Pi) | bit(Pf) | bit(Po);
inline constexpr CharClass kSymbol = bit(Sm) | bit(Sc) | bit(Sk) | bit(So);
inline constexpr CharClass kSpace = CharClass{1} << 31;  // White_Space
}  // namespace char_class

inline std::uint8_t category_byte(char32_t code) {
  using namespace unicode_tables;
  return kCategoryBlocks[(std::size_t{kCategoryIndex[code >> kBlockShift]} << kBlockShift) +
                         (code & ((1u << kBlockShift) - 1))];
}

// One category bit, and kSpace for white space; 0 for kInvalidChar.
inline CharClass class_of(char32_t code) {
  if (code >= kInvalidChar) return 0;
  const std::uint8_t byte = category_byte(code);
  return (CharClass{1} << (byte & 0x1F)) | (CharClass{byte} & 0x20) << 26;
}

// \w of regular expressions: Alphabetic, marks, decimal numbers, connectors, joiners.
bool is_word_char(char32_t code);

}  // namespace weir::text
