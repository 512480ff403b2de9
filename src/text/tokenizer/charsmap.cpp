#include "text/tokenizer/charsmap.h"

#include <utf8proc.h>

#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

constexpr std::size_t kMaxGraphemeBytes = 6;  // longer clusters are mapped character by character

// A unit of the double array (darts-clone): a label, an offset to the children, whether a value hangs below.
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
std::uint32_t label_of(std::uint32_t unit) {
  return unit & 0x800000FF;
}
std::uint32_t offset_of(std::uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200) >> 6);
}

std::size_t grapheme_end(std::string_view text, std::size_t begin) {
  utf8proc_int32_t state = 0;
  Char last = char_at(text, begin);
  std::size_t at = begin + last.size;
  while (at < text.size()) {
    const Char next = char_at(text, at);
    if (last.code == kInvalidChar || next.code == kInvalidChar) break;
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    last = next;
    at += next.size;
  }
  return at;
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob) {
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value |= std::uint32_t{static_cast<unsigned char>(blob[at + i])} << 8 * i;
    return value;
  };
  if (blob.size() < 4 || word(0) > blob.size() - 4 || word(0) % 4 != 0) {
    return fail(ErrorCode::kCorruptFile,
                "the precompiled normalisation map has {} bytes, and its trie does not fit into them", blob.size());
  }
  Charsmap map;
  const std::size_t units = word(0) / 4;
  map.units_.reserve(units);
  for (std::size_t i = 0; i < units; ++i) map.units_.push_back(word(4 + 4 * i));
  map.strings_ = blob.substr(4 + 4 * units);
  return map;
}

Charsmap::Hit Charsmap::find(std::string_view text, bool longest) const {
  Hit hit;
  if (units_.empty()) return hit;
  std::uint32_t at = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    at ^= byte;
    if (at >= units_.size() || label_of(units_[at]) != byte) break;
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (at >= units_.size()) break;
    if (!has_leaf(unit)) continue;
    hit = {i + 1, value_of(units_[at])};
    if (!longest) break;
  }
  return hit;
}

std::string_view Charsmap::replacement(std::uint32_t value) const {
  if (value >= strings_.size()) return {};
  const std::string_view rest = std::string_view(strings_).substr(value);
  return rest.substr(0, rest.find('\0'));
}

void Charsmap::map_grapheme(std::string_view grapheme, std::string& out) const {
  if (grapheme.size() < kMaxGraphemeBytes) {
    if (const Hit hit = find(grapheme, false); hit.size > 0) {
      out += replacement(hit.value);
      return;
    }
  }
  for (std::size_t at = 0; at < grapheme.size();) {
    const std::string_view one = grapheme.substr(at, char_at(grapheme, at).size);
    const Hit hit = find(one, false);
    out += hit.size > 0 ? replacement(hit.value) : one;
    at += one.size();
  }
}

std::optional<std::string> Charsmap::apply(std::string_view text, CharsmapUnits units, std::size_t max_bytes) const {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size() && out.size() <= max_bytes;) {
    if (units == CharsmapUnits::kGraphemes) {
      const std::size_t end = grapheme_end(text, at);
      map_grapheme(text.substr(at, end - at), out);
      at = end;
      continue;
    }
    const Hit hit = find(text.substr(at), true);
    if (hit.size > 0) {
      out += replacement(hit.value);
      at += hit.size;
    } else {
      const std::size_t size = char_at(text, at).size;
      out += text.substr(at, size);
      at += size;
    }
  }
  if (out == text || out.size() > max_bytes) return std::nullopt;
  return out;
}

}  // namespace weir::text
