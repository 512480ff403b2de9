#include "text/tokenizer/char_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <string>

#include "text/tokenizer/script_tables.h"

namespace weir::text {
namespace {

using namespace char_class;

struct NamedClass {
  std::string_view name;
  CharClass classes;
};

constexpr CharClass kCased = bit(Lu) | bit(Ll) | bit(Lt);
constexpr CharClass kOther = bit(Cc) | bit(Cf) | bit(Cs) | bit(Co) | bit(Cn);
constexpr CharClass kSeparator = bit(Zs) | bit(Zl) | bit(Zp);

constexpr NamedClass kClasses[] = {
    {"l", kLetter},
    {"letter", kLetter},
    {"lc", kCased},
    {"casedletter", kCased},
    {"lu", bit(Lu)},
    {"uppercaseletter", bit(Lu)},
    {"ll", bit(Ll)},
    {"lowercaseletter", bit(Ll)},
    {"lt", bit(Lt)},
    {"titlecaseletter", bit(Lt)},
    {"lm", bit(Lm)},
    {"modifierletter", bit(Lm)},
    {"lo", bit(Lo)},
    {"otherletter", bit(Lo)},
    {"m", kMark},
    {"mark", kMark},
    {"combiningmark", kMark},
    {"mn", bit(Mn)},
    {"nonspacingmark", bit(Mn)},
    {"mc", bit(Mc)},
    {"spacingmark", bit(Mc)},
    {"me", bit(Me)},
    {"enclosingmark", bit(Me)},
    {"n", kNumber},
    {"number", kNumber},
    {"nd", bit(Nd)},
    {"decimalnumber", bit(Nd)},
    {"digit", bit(Nd)},
    {"nl", bit(Nl)},
    {"letternumber", bit(Nl)},
    {"no", bit(No)},
    {"othernumber", bit(No)},
    {"p", kPunctuation},
    {"punctuation", kPunctuation},
    {"punct", kPunctuation},
    {"pc", bit(Pc)},
    {"connectorpunctuation", bit(Pc)},
    {"pd", bit(Pd)},
    {"dashpunctuation", bit(Pd)},
    {"ps", bit(Ps)},
    {"openpunctuation", bit(Ps)},
    {"pe", bit(Pe)},
    {"closepunctuation", bit(Pe)},
    {"pi", bit(Pi)},
    {"initialpunctuation", bit(Pi)},
    {"pf", bit(Pf)},
    {"finalpunctuation", bit(Pf)},
    {"po", bit(Po)},
    {"otherpunctuation", bit(Po)},
    {"s", kSymbol},
    {"symbol", kSymbol},
    {"sm", bit(Sm)},
    {"mathsymbol", bit(Sm)},
    {"sc", bit(Sc)},
    {"currencysymbol", bit(Sc)},
    {"sk", bit(Sk)},
    {"modifiersymbol", bit(Sk)},
    {"so", bit(So)},
    {"othersymbol", bit(So)},
    {"z", kSeparator},
    {"separator", kSeparator},
    {"zs", bit(Zs)},
    {"spaceseparator", bit(Zs)},
    {"zl", bit(Zl)},
    {"lineseparator", bit(Zl)},
    {"zp", bit(Zp)},
    {"paragraphseparator", bit(Zp)},
    {"c", kOther},
    {"other", kOther},
    {"cc", bit(Cc)},
    {"control", bit(Cc)},
    {"cntrl", bit(Cc)},
    {"cf", bit(Cf)},
    {"format", bit(Cf)},
    {"cs", bit(Cs)},
    {"surrogate", bit(Cs)},
    {"co", bit(Co)},
    {"privateuse", bit(Co)},
    {"cn", bit(Cn)},
    {"unassigned", bit(Cn)},
    {"space", kSpace},
    {"whitespace", kSpace},
    {"any", ~CharClass{0}},
};

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c);
  }
  return plain;
}

}  // namespace

CharSet CharSet::of_class(CharClass cls, bool negated) {
  CharSet set;
  set.classes_ = cls;
  set.negated_ = negated;
  return set;
}

CharSet CharSet::of_char(char32_t code) {
  return of_range(code, code);
}

CharSet CharSet::of_range(char32_t first, char32_t last) {
  CharSet set;
  set.ranges_.emplace_back(first, last);
  return set;
}

CharSet CharSet::word() {
  CharSet set = of_class(kMark | bit(Nd) | bit(Pc));
  set.properties_ = unicode_tables::kAlphabetic;
  return set;
}

CharSet CharSet::word_alone() {
  CharSet set = word();
  set.ranges_ = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};
  return set;
}

std::optional<CharSet> CharSet::of_property(std::string_view name) {
  const std::string plain = plain_name(name);
  for (const NamedClass& known : kClasses) {
    if (known.name == plain) return of_class(known.classes);
  }
  CharSet set;
  if (plain == "word") return word();
  if (plain == "alpha" || plain == "alphabetic" || plain == "alnum") {
    set.properties_ = unicode_tables::kAlphabetic;
    if (plain == "alnum") set.classes_ = bit(Nd);
  } else if (plain == "upper" || plain == "uppercase") {
    set.properties_ = unicode_tables::kUppercase;
  } else if (plain == "lower" || plain == "lowercase") {
    set.properties_ = unicode_tables::kLowercase;
  } else if (plain == "ascii") {
    set.ranges_.emplace_back(0, 0x7F);
  } else if (plain == "xdigit") {
    set.ranges_ = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  } else if (plain == "blank") {
    set.classes_ = bit(Zs);
    set.ranges_.emplace_back('\t', '\t');
  } else if (plain == "graph" || plain == "print") {
    set.classes_ = plain == "graph" ? kSpace | bit(Cc) | bit(Cn) | bit(Cs) : bit(Cc) | bit(Cn) | bit(Cs);
    set.negated_ = true;
  } else if (const int script = unicode_tables::script_of_name(plain); script >= 0) {
    set.scripts_.push_back(static_cast<std::uint8_t>(script));
  } else {
    return std::nullopt;
  }
  return set;
}

// Sets of classes and ranges only are merged in place: most sets stay flat.
void CharSet::add(CharSet other) {
  if (!other.negated_ && !other.ignore_case_ && other.members_.empty() && other.limits_.empty()) {
    classes_ |= other.classes_;
    properties_ |= other.properties_;
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
    scripts_.insert(scripts_.end(), other.scripts_.begin(), other.scripts_.end());
  } else {
    members_.push_back(std::move(other));
  }
}

void CharSet::intersect(CharSet other) {
  limits_.push_back(std::move(other));
}

void CharSet::seal() {
  for (CharSet& member : members_) member.seal();
  for (CharSet& limit : limits_) limit.seal();
  std::sort(ranges_.begin(), ranges_.end());
  std::vector<std::pair<char32_t, char32_t>> joined;
  for (const auto& range : ranges_) {
    if (!joined.empty() && range.first <= joined.back().second + 1) {
      joined.back().second = std::max(joined.back().second, range.second);
    } else {
      joined.push_back(range);
    }
  }
  ranges_ = std::move(joined);
  for (char32_t code = 0; code < 0x80; ++code) ascii_[code] = contains_slowly(code);
}

bool CharSet::lists(char32_t code) const {
  if (classes_ != 0 && (class_of(code) & classes_) != 0) return true;
  if (!ranges_.empty()) {
    auto above = std::upper_bound(ranges_.begin(), ranges_.end(), code,
                                  [](char32_t c, const auto& range) { return c < range.first; });
    if (above != ranges_.begin() && code <= std::prev(above)->second) return true;
  }
  if (!scripts_.empty()) {
    const int script = unicode_tables::script_of(code);
    if (std::find(scripts_.begin(), scripts_.end(), script) != scripts_.end()) return true;
  }
  if (properties_ != 0 && (unicode_tables::properties_of(code) & properties_) != 0) return true;
  return std::any_of(members_.begin(), members_.end(), [&](const CharSet& m) { return m.contains(code); });
}

bool CharSet::contains_slowly(char32_t code) const {
  if (code >= kInvalidChar) return negated_;  // in no class
  bool inside = lists(code);
  if (!inside && ignore_case_) {
    const CaseVariants variants = case_variants(code);
    for (int i = 1; i < variants.count && !inside; ++i) inside = lists(variants.codes[i]);
  }
  for (const CharSet& limit : limits_) inside = inside && limit.contains(code);
  return inside != negated_;
}

std::optional<char32_t> CharSet::single() const {
  const bool one = classes_ == 0 && ranges_.size() == 1 && ranges_[0].first == ranges_[0].second && scripts_.empty() &&
                   properties_ == 0 && members_.empty() && limits_.empty() && !negated_ && !ignore_case_;
  return one ? std::optional(ranges_[0].first) : std::nullopt;
}

CaseVariants case_variants(char32_t code) {
  constexpr char32_t kLongS = 0x17F, kKelvin = 0x212A, kAngstrom = 0x212B;
  CaseVariants variants{{code}, 1};
  const auto put = [&](char32_t c) {
    for (int i = 0; i < variants.count; ++i) {
      if (variants.codes[i] == c) return;
    }
    if (variants.count < 5) variants.codes[variants.count++] = c;
  };
  const auto signed_code = static_cast<utf8proc_int32_t>(code);
  const auto lower = static_cast<char32_t>(utf8proc_tolower(signed_code));
  put(lower);
  put(static_cast<char32_t>(utf8proc_toupper(signed_code)));
  put(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(lower))));
  if (lower == 's' || code == kLongS) {
    put('s');
    put('S');
    put(kLongS);
  }
  if (lower == 'k') put(kKelvin);
  if (lower == 0xE5) put(kAngstrom);
  return variants;
}

}  // namespace weir::text
