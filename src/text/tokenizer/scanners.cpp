#include "text/tokenizer/scanners.h"

#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

using namespace char_class;

struct Look {
  CharClass cls = 0;
  char32_t code = kInvalidChar;
  unsigned size = 0;  // 0: past the end

  bool in(CharClass set) const { return (cls & set) != 0; }
  bool is_newline() const { return code == '\n' || code == '\r'; }
};

Look look(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const Char c = char_at(text, at);
  return {class_of(c.code), c.code, c.size};
}

std::size_t run_in(std::string_view text, std::size_t at, CharClass set) {
  for (Look c; (c = look(text, at)).in(set);) at += c.size;
  return at;
}

// A run of characters in none of the classes of `set`.
std::size_t run_outside(std::string_view text, std::size_t at, CharClass set) {
  for (Look c; (c = look(text, at)).size != 0 && !c.in(set);) at += c.size;
  return at;
}

// \s+(?!\S)|\s+ : white space, but its last character stays with the word that follows.
std::size_t spaces_but_last(std::string_view text, std::size_t begin) {
  std::size_t at = begin, last = begin;
  for (Look c; (c = look(text, at)).in(kSpace);) {
    last = at;
    at += c.size;
  }
  return at == text.size() || last == begin ? at : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : white space up to its last line end, else as above.
std::size_t spaces_to_newline(std::string_view text, std::size_t begin) {
  std::size_t at = begin, last = begin, after_newline = begin;
  for (Look c; (c = look(text, at)).in(kSpace);) {
    last = at;
    at += c.size;
    if (c.is_newline()) after_newline = at;
  }
  if (after_newline != begin) return after_newline;
  return at == text.size() || last == begin ? at : last;
}

// Length of 's 't 're 've 'm 'll 'd at text[at]; 0 if there is none. Ignoring case, U+017F (long s) counts as s.
std::size_t contraction(std::string_view text, std::size_t at, bool ignore_case) {
  if (at + 1 >= text.size() || text[at] != '\'') return 0;
  const auto letter = [&](std::size_t i) {
    const char c = at + i < text.size() ? text[at + i] : '\0';
    return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  const char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  if (ignore_case && text.substr(at + 1, 2) == "\u017F") return 3;
  return 0;
}

std::size_t at_most(std::string_view text, std::size_t at, CharClass set, unsigned count) {
  for (Look c; count > 0 && (c = look(text, at)).in(set); --count) at += c.size;
  return at;
}

//  ?[^\s\p{L}\p{N}...]+[tail]* ; returns begin if there is no symbol.
template <class InTail>
std::size_t symbols(std::string_view text, std::size_t begin, CharClass excluded, InTail in_tail) {
  const std::size_t start = begin + (text[begin] == ' ' ? 1 : 0);
  std::size_t at = run_outside(text, start, excluded);
  if (at == start) return begin;
  while (at < text.size() && in_tail(text[at])) ++at;
  return at;
}

bool newline_byte(char c) {
  return c == '\n' || c == '\r';
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[letters]+|\p{N}{1,digits}|
// ?[^\s\p{N}letters]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <CharClass kLetters, unsigned kDigits>
std::size_t scan_words(std::string_view text, std::size_t begin) {
  if (const std::size_t size = contraction(text, begin, true)) return begin + size;
  const Look first = look(text, begin);
  if (first.in(kLetters)) return run_in(text, begin + first.size, kLetters);
  if (first.in(kNumber)) return at_most(text, begin, kNumber, kDigits);
  if (!first.is_newline()) {
    const std::size_t after = begin + first.size;
    const std::size_t end = run_in(text, after, kLetters);
    if (end != after) return end;
  }
  if (const std::size_t end = symbols(text, begin, kSpace | kLetters | kNumber, newline_byte); end != begin) return end;
  return spaces_to_newline(text, begin);
}

constexpr CharClass kUpperWord = bit(Lu) | bit(Lt) | bit(Lm) | bit(Lo) | kMark;
constexpr CharClass kLowerWord = bit(Ll) | bit(Lm) | bit(Lo) | kMark;

// [upper word]*[lower word]+ from `at`; returns `at` if it does not match. The greedy first part gives back only as
// much as the second needs: its last character that is in both sets.
std::size_t cased_word(std::string_view text, std::size_t at) {
  std::size_t end = at, after_shared = at;
  for (Look c; (c = look(text, end)).in(kUpperWord);) {
    end += c.size;
    if (c.in(kLowerWord)) after_shared = end;
  }
  const std::size_t lower_end = run_in(text, end, kLowerWord);
  return lower_end != end ? lower_end : after_shared;
}

template <bool kContractions, unsigned kDigits>
std::size_t scan_cased(std::string_view text, std::size_t begin) {
  const Look first = look(text, begin);
  const std::size_t after = begin + first.size;
  const bool may_lead = !first.in(kLetter | kNumber) && !first.is_newline();
  const auto finish = [&](std::size_t end) { return kContractions ? end + contraction(text, end, true) : end; };
  if (may_lead) {
    if (const std::size_t end = cased_word(text, after); end != after) return finish(end);
  }
  if (const std::size_t end = cased_word(text, begin); end != begin) return finish(end);
  if (may_lead) {
    if (const std::size_t end = run_in(text, after, kUpperWord); end != after) return finish(end);
  }
  if (const std::size_t end = run_in(text, begin, kUpperWord); end != begin) return finish(end);
  if (first.in(kNumber)) return at_most(text, begin, kNumber, kDigits);
  const auto tail = [](char c) { return newline_byte(c) || c == '/'; };
  if (const std::size_t end = symbols(text, begin, kSpace | kLetter | kNumber, tail); end != begin) return end;
  return spaces_to_newline(text, begin);
}

template <class InSet>
std::size_t run_or_rest(std::string_view text, std::size_t begin, InSet in_set) {
  const auto inside = [&](std::size_t at) { return in_set(look(text, at)); };
  const bool wanted = inside(begin);
  std::size_t at = begin;
  while (at < text.size() && inside(at) == wanted) at += look(text, at).size;
  return at;
}

bool ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}
bool ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// One match of DeepSeek's third pattern at `begin`, or `begin`.
std::size_t deepseek_word(std::string_view text, std::size_t begin) {
  constexpr CharClass kWord = kLetter | kMark, kSigns = kPunctuation | kSymbol;
  const Look first = look(text, begin);
  const std::size_t after = begin + first.size;
  if (ascii_punctuation(first.code)) {
    std::size_t end = after;
    while (end < text.size() && ascii_letter(text[end])) ++end;
    if (end != after) return end;
  }
  if (!first.is_newline() && !first.in(kLetter | kSigns)) {
    if (const std::size_t end = run_in(text, after, kWord); end != after) return end;
  }
  if (first.in(kWord)) return run_in(text, after, kWord);
  const std::size_t start = first.code == ' ' ? after : begin;
  if (std::size_t end = run_in(text, start, kSigns); end != start) {
    while (end < text.size() && newline_byte(text[end])) ++end;
    return end;
  }
  return first.in(kSpace) ? spaces_to_newline(text, begin) : begin;
}

struct KnownPattern {
  std::string_view pattern;
  Scanner scanner;
};

#define WEIR_CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define WEIR_ANY_CASE_CONTRACTIONS "(?i:" WEIR_CONTRACTIONS ")"
#define WEIR_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WEIR_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define WEIR_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define WEIR_LEAD "[^\\r\\n\\p{L}\\p{N}]?"

constexpr KnownPattern kKnownPatterns[] = {
    {"\\p{N}", scan_each_number},
    {"\\p{N}{1,3}", scan_numbers_by_three},
    {WEIR_CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", scan_gpt2},
    {WEIR_ANY_CASE_CONTRACTIONS "|" WEIR_LEAD "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" WEIR_SPACES,
     scan_llama3},
    {WEIR_ANY_CASE_CONTRACTIONS "|" WEIR_LEAD "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" WEIR_SPACES, scan_qwen2},
    {WEIR_ANY_CASE_CONTRACTIONS "|" WEIR_LEAD
                                "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" WEIR_SPACES,
     scan_qwen35},
    {WEIR_LEAD WEIR_UPPER "*" WEIR_LOWER "+" WEIR_ANY_CASE_CONTRACTIONS "?|" WEIR_LEAD WEIR_UPPER "+" WEIR_LOWER
                          "*" WEIR_ANY_CASE_CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" WEIR_SPACES,
     scan_gpt4o},
    {WEIR_LEAD WEIR_UPPER "*" WEIR_LOWER "+|" WEIR_LEAD WEIR_UPPER "+" WEIR_LOWER
                          "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" WEIR_SPACES,
     scan_tekken},
    {"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", scan_deepseek_cjk},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\r\n]*|"
     "\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     scan_deepseek_words},
};

}  // namespace

std::size_t scan_each_number(std::string_view text, std::size_t begin) {
  const Look first = look(text, begin);
  return first.in(kNumber) ? begin + first.size : run_outside(text, begin, kNumber);
}

std::size_t scan_numbers_by_three(std::string_view text, std::size_t begin) {
  return look(text, begin).in(kNumber) ? at_most(text, begin, kNumber, 3) : run_outside(text, begin, kNumber);
}

std::size_t scan_gpt2(std::string_view text, std::size_t begin) {
  if (const std::size_t size = contraction(text, begin, false)) return begin + size;
  const std::size_t start = begin + (text[begin] == ' ' ? 1 : 0);
  const Look first = look(text, start);
  if (first.in(kLetter)) return run_in(text, start + first.size, kLetter);
  if (first.in(kNumber)) return run_in(text, start + first.size, kNumber);
  if (first.size != 0 && !first.in(kSpace)) return run_outside(text, start, kSpace | kLetter | kNumber);
  return spaces_but_last(text, begin);
}

std::size_t scan_llama3(std::string_view text, std::size_t begin) {
  return scan_words<kLetter, 3>(text, begin);
}
std::size_t scan_qwen2(std::string_view text, std::size_t begin) {
  return scan_words<kLetter, 1>(text, begin);
}
std::size_t scan_qwen35(std::string_view text, std::size_t begin) {
  return scan_words < kLetter | kMark, 1 > (text, begin);
}
std::size_t scan_gpt4o(std::string_view text, std::size_t begin) {
  return scan_cased<true, 3>(text, begin);
}
std::size_t scan_tekken(std::string_view text, std::size_t begin) {
  return scan_cased<false, 1>(text, begin);
}

std::size_t scan_deepseek_cjk(std::string_view text, std::size_t begin) {
  return run_or_rest(text, begin, [](const Look& c) {
    return (c.code >= 0x4E00 && c.code <= 0x9FA5) || (c.code >= 0x3040 && c.code <= 0x30FF);
  });
}

std::size_t scan_deepseek_words(std::string_view text, std::size_t begin) {
  if (const std::size_t end = deepseek_word(text, begin); end != begin) return end;
  std::size_t at = begin;
  do {
    at += look(text, at).size;
  } while (at < text.size() && deepseek_word(text, at) == at);
  return at;
}

Scanner scanner_for_pattern(std::string_view pattern) {
  for (const KnownPattern& known : kKnownPatterns) {
    if (known.pattern == pattern) return known.scanner;
  }
  return nullptr;
}

}  // namespace weir::text
