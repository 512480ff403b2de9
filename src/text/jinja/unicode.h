// UTF-8 and the character properties that Python's str methods use. Everything here expects valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::text::jinja {

bool is_valid_utf8(std::string_view bytes);
// The same text with every byte that is not part of a valid sequence replaced by U+FFFD.
std::string repair_utf8(std::string_view bytes);

// Bytes of the character that starts with this byte.
inline std::size_t char_size(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}
inline bool is_continuation(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

char32_t decode_char(std::string_view bytes, std::size_t at);
void append_char(std::string& out, char32_t c);
std::size_t count_chars(std::string_view bytes);
// Byte offset of the character `index`; the size of the text if it has no such character.
std::size_t offset_of_char(std::string_view bytes, std::size_t index);

bool is_space(char32_t c);      // str.isspace, what strip() and split() take away
bool is_line_end(char32_t c);   // where str.splitlines() cuts ("\r\n" is one)
bool is_printable(char32_t c);  // what repr() leaves as it is
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);

std::u32string upper_of(char32_t c);
std::u32string title_of(char32_t c);
// Lower case of the character at `at`; the text around it decides about a final sigma.
std::u32string lower_at(std::string_view bytes, std::size_t at);

}  // namespace weir::text::jinja
