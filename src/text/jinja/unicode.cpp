#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace weir::text::jinja {

namespace {

struct SpecialCasing {
  char32_t code;
  std::u32string_view upper, title;
};

constexpr SpecialCasing kSpecialCasing[] = {
#include "text/jinja/special_casing.inc"
};

const SpecialCasing* special_casing(char32_t c) {
  if (c < 0xDF) return nullptr;
  const auto* found = std::lower_bound(std::begin(kSpecialCasing), std::end(kSpecialCasing), c,
                                       [](const SpecialCasing& entry, char32_t code) { return entry.code < code; });
  return found != std::end(kSpecialCasing) && found->code == c ? found : nullptr;
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Size of the valid sequence at `at`, 0 if there is none (overlong forms, surrogates and stray bytes are not valid).
std::size_t valid_sequence(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const unsigned second = byte(at + 1);
  if (!is_continuation(second)) return 0;
  if (first < 0xE0) return 2;
  if (first < 0xF0) {
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;
    return is_continuation(byte(at + 2)) ? 3 : 0;
  }
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;
  return is_continuation(byte(at + 2)) && is_continuation(byte(at + 3)) ? 4 : 0;
}

bool is_cased(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
}

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == U'\'' || c == U'.' || c == U':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 ||
             c == 0x2027;
  }
}

// A capital sigma at the end of a word: a letter before it and none after it, marks and apostrophes not counted.
bool is_final_sigma(std::string_view bytes, std::size_t at) {
  std::size_t i = at;
  bool after_letter = false;
  while (i > 0) {
    do --i;
    while (i > 0 && is_continuation(bytes[i]));
    const char32_t c = decode_char(bytes, i);
    if (is_case_ignorable(c)) continue;
    after_letter = is_cased(c);
    break;
  }
  if (!after_letter) return false;
  for (i = at + char_size(bytes[at]); i < bytes.size(); i += char_size(bytes[i])) {
    const char32_t c = decode_char(bytes, i);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

}  // namespace

bool is_valid_utf8(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = valid_sequence(bytes, at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = valid_sequence(bytes, at);
    if (size == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
    } else {
      out.append(bytes, at, size);
      at += size;
    }
  }
  return out;
}

char32_t decode_char(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(bytes[at + i])); };
  const char32_t first = byte(0);
  switch (char_size(static_cast<unsigned char>(first))) {
    case 1:
      return first;
    case 2:
      return (first & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

void append_char(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::size_t count_chars(std::string_view bytes) {
  return static_cast<std::size_t>(std::count_if(
      bytes.begin(), bytes.end(), [](char c) { return !is_continuation(static_cast<unsigned char>(c)); }));
}

std::size_t offset_of_char(std::string_view bytes, std::size_t index) {
  std::size_t at = 0;
  while (index > 0 && at < bytes.size()) {
    at += char_size(static_cast<unsigned char>(bytes[at]));
    --index;
  }
  return at;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  // Decimal digits and the superscript, subscript, circled and parenthesised ones.
  if (is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9) return true;
  return c == 0x2070 || (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) ||
         (c >= 0x2474 && c <= 0x247C) || (c >= 0x2488 && c <= 0x2490);
}

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}
bool is_title(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_identifier_start(char32_t c) {
  if (c < 0x80) return c == U'_' || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z');
  return is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(char32_t c) {
  if (is_identifier_start(c)) return true;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
         kind == UTF8PROC_CATEGORY_PC;
}

std::u32string upper_of(char32_t c) {
  if (const auto* special = special_casing(c)) return std::u32string(special->upper);
  return std::u32string(1, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

std::u32string title_of(char32_t c) {
  if (const auto* special = special_casing(c)) return std::u32string(special->title);
  return std::u32string(1, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

std::u32string lower_at(std::string_view bytes, std::size_t at) {
  const char32_t c = decode_char(bytes, at);
  if (c == 0x130) return U"i\u0307";
  if (c == 0x3A3) return is_final_sigma(bytes, at) ? U"\u03C2" : U"\u03C3";
  return std::u32string(1, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace weir::text::jinja
