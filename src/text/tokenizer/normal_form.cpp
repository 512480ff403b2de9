#include "text/tokenizer/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "text/tokenizer/library_tables.h"
#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

using namespace unicode_tables;

// Hangul syllables compose by arithmetic (Unicode standard, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11A7;
constexpr char32_t kNumLeads = 19, kNumVowels = 21, kNumTrails = 28,
                   kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

constexpr std::uint8_t kCategoryNfcBit = 0x40;

struct Item {
  char32_t code;  // >= kInvalidChar: kInvalidChar + the byte
  std::uint8_t combining;
};

bool is_inert(char32_t code) {
  return (category_byte(code) & kCategoryNfcBit) == 0;
}

std::uint8_t combining_class(char32_t code) {
  return kCombiningBlocks[(std::size_t{kCombiningIndex[code >> kBlockShift]} << kBlockShift) +
                          (code & ((1u << kBlockShift) - 1))];
}

const Decomposition* find_decomposition(char32_t code) {
  const auto* end = kDecompositions + kNumDecompositions;
  const auto* found =
      std::lower_bound(kDecompositions, end, code, [](const Decomposition& d, char32_t c) { return d.composed < c; });
  return found != end && found->composed == code ? found : nullptr;
}

// For NFD alone: characters that the tables of the tokenizers library do not know yet stay whole.
bool whole_in_nfd(char32_t code) {
  return find_range(library_tables::kUnknownToNfd, library_tables::kNumUnknownToNfd, code) != nullptr;
}

void decompose(char32_t code, std::vector<Item>& out) {
  if (code - kSyllables < kNumSyllables) {
    const char32_t s = code - kSyllables;
    out.push_back({kLeads + s / (kNumVowels * kNumTrails), 0});
    out.push_back({kVowels + s / kNumTrails % kNumVowels, 0});
    if (s % kNumTrails != 0) out.push_back({kTrails + s % kNumTrails, 0});
    return;
  }
  // Only the first part of a canonical decomposition decomposes further; the longest chain gives four code points.
  char32_t tail[8];
  int tails = 0;
  while (const Decomposition* d = code < 0xC0 ? nullptr : find_decomposition(code)) {
    if (d->second != 0) tail[tails++] = d->second;
    code = d->first;
  }
  out.push_back({code, combining_class(code)});
  while (tails > 0) {
    --tails;
    out.push_back({tail[tails], combining_class(tail[tails])});
  }
}

void reorder(std::vector<Item>& items) {
  for (std::size_t i = 0; i < items.size();) {
    if (items[i].combining == 0) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < items.size() && items[end].combining != 0) ++end;
    std::stable_sort(items.begin() + static_cast<std::ptrdiff_t>(i), items.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const Item& a, const Item& b) { return a.combining < b.combining; });
    i = end;
  }
}

char32_t compose_pair(char32_t first, char32_t second) {
  if (first - kLeads < kNumLeads && second - kVowels < kNumVowels) {
    return kSyllables + ((first - kLeads) * kNumVowels + (second - kVowels)) * kNumTrails;
  }
  if (first - kSyllables < kNumSyllables && (first - kSyllables) % kNumTrails == 0 &&
      second - kTrails - 1 < kNumTrails - 1) {
    return first + (second - kTrails);
  }
  const auto key = std::pair(first, second);
  const auto* end = kCompositions + kNumCompositions;
  const auto* found = std::lower_bound(
      kCompositions, end, key, [](const Composition& c, const auto& k) { return std::pair(c.first, c.second) < k; });
  return found != end && std::pair(found->first, found->second) == key ? found->composed : 0;
}

void compose(std::vector<Item>& items) {
  std::size_t out = 0, starter = 0;
  bool have_starter = false;
  int last_combining = -1;  // of what stands between the starter and here; -1: nothing
  for (const Item item : items) {
    const bool blocked = last_combining >= 0 && (last_combining == 0 || last_combining >= item.combining);
    const char32_t composed =
        have_starter && !blocked && item.code < kInvalidChar ? compose_pair(items[starter].code, item.code) : 0;
    if (composed != 0) {
      items[starter].code = composed;
      continue;
    }
    if (item.combining == 0) {
      starter = out;
      have_starter = item.code < kInvalidChar;
      last_combining = -1;
    } else {
      last_combining = item.combining;
    }
    items[out++] = item;
  }
  items.resize(out);
}

std::string mapped_by_utf8proc(std::string_view text, bool composed) {
  int options = UTF8PROC_STABLE | UTF8PROC_COMPAT;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  utf8proc_uint8_t* mapped = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(options));
  if (size < 0) return std::string(text);  // not UTF-8
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size)};
}

// Characters that the tables of the tokenizers library do not know yet pass as they are.
std::string compatibility_form(std::string_view text, bool composed) {
  using namespace library_tables;
  const CodeRange* unknown = composed ? kUnknownToNfkc : kUnknownToNfkd;
  const std::size_t count = composed ? kNumUnknownToNfkc : kNumUnknownToNfkd;
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    if (c.code >= 0x80 && (c.code == kInvalidChar || find_range(unknown, count, c.code) != nullptr)) {
      out += mapped_by_utf8proc(text.substr(begin, at - begin), composed);
      out += text.substr(at, c.size);
      begin = at + c.size;
    }
    at += c.size;
  }
  return out += mapped_by_utf8proc(text.substr(begin), composed);
}

// The first character at or behind `at` that NFC may change or join with its neighbours, or the end. `before`: where
// the character in front of it begins.
std::size_t next_unsure(std::string_view text, std::size_t at, std::size_t* before) {
  std::size_t last = at;
  while (at < text.size()) {
    // Every character before U+0300 is inert, and they are all that start with a byte below 0xCC.
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0xCC) {
      if (byte < 0x80 || byte >= 0xC0) last = at;
      ++at;
      continue;
    }
    const Char c = char_at(text, at);
    if (c.code == kInvalidChar || !is_inert(c.code)) break;
    last = at;
    at += c.size;
  }
  if (before != nullptr) *before = last;
  return at;
}

void normalize_part(std::string_view text, bool composed, std::vector<Item>& items, std::string& out) {
  items.clear();
  for (std::size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    if (c.code == kInvalidChar) {
      items.push_back({kInvalidChar + static_cast<unsigned char>(text[at]), 0});
    } else if (!composed && c.code >= 0x300 && whole_in_nfd(c.code)) {
      items.push_back({c.code, combining_class(c.code)});
    } else {
      decompose(c.code, items);
    }
    at += c.size;
  }
  reorder(items);
  if (composed) compose(items);
  for (const Item& item : items) {
    if (item.code >= kInvalidChar) {
      out.push_back(static_cast<char>(item.code - kInvalidChar));
    } else {
      append_utf8(out, item.code);
    }
  }
}

}  // namespace

bool surely_nfc(std::string_view text) {
  return next_unsure(text, 0, nullptr) == text.size();
}

std::string normalize(std::string_view text, NormalForm form) {
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd)
    return compatibility_form(text, form == NormalForm::kNfkc);
  std::string out;
  out.reserve(text.size());
  std::vector<Item> items;
  if (form == NormalForm::kNfd) {
    normalize_part(text, false, items, out);
    return out;
  }
  // Inert characters bound the parts that need work: copy between them. The one before a part may take something on.
  for (std::size_t at = 0; at < text.size();) {
    std::size_t begin = at;
    const std::size_t unsure = next_unsure(text, at, &begin);
    if (unsure == text.size()) begin = unsure;
    out += text.substr(at, begin - at);
    std::size_t end = unsure;
    while (end < text.size()) {
      const Char c = char_at(text, end);
      if (c.code != kInvalidChar && is_inert(c.code)) break;
      end += c.size;
    }
    normalize_part(text.substr(begin, end - begin), true, items, out);
    at = end;
  }
  return out;
}

}  // namespace weir::text
