#include "text/tokenizer/byte_chars.h"

#include <array>
#include <cstdint>

#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

constexpr char32_t kFirstSubstitute =
    0x100;  // bytes that are not printable Latin-1 get the code points from here on, in order

constexpr bool printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Tables {
  std::array<char32_t, 256> char_of{};
  std::array<std::int16_t, 512> byte_of{};
};

constexpr Tables make_tables() {
  Tables t;
  for (auto& byte : t.byte_of) byte = -1;
  char32_t substitute = kFirstSubstitute;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t code = printable(byte) ? byte : substitute++;
    t.char_of[byte] = code;
    t.byte_of[code] = static_cast<std::int16_t>(byte);
  }
  return t;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::string bytes_to_chars(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char c : bytes) append_utf8(out, kTables.char_of[static_cast<unsigned char>(c)]);
  return out;
}

std::optional<std::string> chars_to_bytes(std::string_view chars) {
  std::string out;
  out.reserve(chars.size());
  for (std::size_t at = 0; at < chars.size();) {
    const Char c = char_at(chars, at);
    if (c.code >= kTables.byte_of.size() || kTables.byte_of[c.code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kTables.byte_of[c.code]));
    at += c.size;
  }
  return out;
}

}  // namespace weir::text
