#include "text/tokenizer/unicode.h"

#include "text/tokenizer/script_tables.h"

namespace weir::text {
namespace detail {

Char decode_multibyte(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const std::size_t left = text.size() - at;
  const auto continues = [&](std::size_t i) { return i < left && (byte(i) & 0xC0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead >= 0xC2 && lead < 0xE0) {
    if (continues(1)) return {(lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu), 2};
  } else if (lead >= 0xE0 && lead < 0xF0) {
    if (continues(1) && continues(2)) {
      const char32_t code = (lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
      if (code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) return {code, 3};
    }
  } else if (lead >= 0xF0 && lead < 0xF5) {
    if (continues(1) && continues(2) && continues(3)) {
      const char32_t code = (lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu);
      if (code >= 0x10000 && code < kInvalidChar) return {code, 4};
    }
  }
  return {kInvalidChar, 1};
}

}  // namespace detail

bool is_word_char(char32_t code) {
  using namespace char_class;
  constexpr CharClass kWord = kLetter | kMark | bit(Nd) | bit(Nl) | bit(Pc);
  const CharClass cls = class_of(code);
  if ((cls & kWord) != 0 || code == 0x200C || code == 0x200D) return true;
  return (cls & bit(So)) != 0 && (unicode_tables::properties_of(code) & unicode_tables::kAlphabetic) != 0;
}

std::size_t previous_char(std::string_view text, std::size_t end) {
  for (std::size_t size = 2; size <= 4 && size <= end; ++size) {
    const Char c = char_at(text, end - size);
    if (c.code != kInvalidChar && c.size == size) return end - size;
  }
  return end - 1;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    if (c.code == kInvalidChar) return false;
    at += c.size;
  }
  return true;
}

}  // namespace weir::text
