#include "text/tokenizer/regex_syntax.h"

#include <optional>
#include <string>
#include <utility>

namespace weir::text {
namespace {

using Kind = RegexNode::Kind;

constexpr std::size_t kMaxPatternBytes = 64 * 1024;  // the longest in use has about 4 KB
constexpr int kMaxNesting = 100;
constexpr std::uint32_t kMaxRepeat = 100'000;  // Oniguruma's
constexpr CharClass kDigitClass = char_class::bit(char_class::Nd);

struct Options {
  bool ignore_case = false, dot_all = false, extended = false;
};

// Thrown inside this file only: a parser in a recursion is clearer with it.
struct SyntaxError {
  std::string what;
  std::size_t at;
  bool unsupported;
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {}

  ParsedRegex parse() {
    parsed_.root = alternatives(Options{}, 0);
    if (at_ < text_.size()) wrong("a ')' without '('");
    for (CharSet& set : parsed_.sets) set.seal();
    return std::move(parsed_);
  }

 private:
  [[noreturn]] void wrong(std::string what) const { throw SyntaxError{std::move(what), at_, false}; }
  [[noreturn]] void lacking(std::string what) const { throw SyntaxError{std::move(what), at_, true}; }

  bool done() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts(std::string_view with) const { return text_.substr(at_).starts_with(with); }
  bool take(std::string_view what) {
    if (!starts(what)) return false;
    at_ += what.size();
    return true;
  }
  char32_t take_char() {
    if (done()) wrong("an end where a character should be");
    const Char c = char_at(text_, at_);
    if (c.code == kInvalidChar) wrong("bytes that are not UTF-8");
    at_ += c.size;
    return c.code;
  }

  static RegexNodePtr node(Kind kind) {
    auto made = std::make_unique<RegexNode>();
    made->kind = kind;
    return made;
  }
  RegexNodePtr set_node(CharSet set) {
    auto made = node(Kind::kSet);
    made->set = static_cast<std::uint32_t>(parsed_.sets.size());
    parsed_.sets.push_back(std::move(set));
    return made;
  }
  static RegexNodePtr anchor_node(Anchor anchor) {
    auto made = node(Kind::kAnchor);
    made->anchor = anchor;
    return made;
  }
  static RegexNodePtr wrap(Kind kind, RegexNodePtr child) {
    auto made = node(kind);
    made->children.push_back(std::move(child));
    return made;
  }

  RegexNodePtr alternatives(Options options, int depth) {
    if (depth > kMaxNesting) lacking("more nesting than weir allows");
    auto all = node(Kind::kAlternate);
    do all->children.push_back(sequence(options, depth));
    while (take("|"));
    return all->children.size() == 1 ? std::move(all->children[0]) : std::move(all);
  }

  RegexNodePtr sequence(Options options, int depth) {
    auto all = node(Kind::kConcat);
    while (!done() && peek() != '|' && peek() != ')') {
      if (options.extended && skip_extended()) continue;
      if (take("(?#")) {
        while (!done() && peek() != ')') ++at_;
        if (!take(")")) wrong("a comment without its ')'");
        continue;
      }
      auto item = atom(options, depth);
      all->children.push_back(quantified(std::move(item), options));
    }
    return all;
  }

  bool skip_extended() {
    if (peek() == '#') {
      while (!done() && peek() != '\n') ++at_;
      return true;
    }
    if (peek() != ' ' && (peek() < '\t' || peek() > '\r')) return false;
    ++at_;
    return true;
  }

  RegexNodePtr quantified(RegexNodePtr item, const Options& options) {
    for (int depth = 0;; ++depth) {
      if (depth > kMaxNesting) lacking("more repetitions of one thing than weir allows");
      if (options.extended) {
        while (!done() && skip_extended()) {
        }
      }
      auto repeat = node(Kind::kRepeat);
      bool plain = true;  // * + ? know lazy and possessive forms; {n,m} a lazy one only
      if (take("*")) {
        repeat->max = RegexNode::kUnbounded;
      } else if (take("+")) {
        repeat->min = 1;
        repeat->max = RegexNode::kUnbounded;
      } else if (take("?")) {
        repeat->max = 1;
      } else if (peek() == '{' && interval(*repeat)) {
        plain = false;
      } else {
        return item;
      }
      if (item->kind == Kind::kAnchor) wrong("a repetition of nothing that could repeat");
      bool possessive = false;
      if (take("?")) {
        if (!plain && repeat->min == repeat->max) {
          // {n}? means an optional {n}.
          repeat->children.push_back(std::move(item));
          item = std::move(repeat);
          repeat = node(Kind::kRepeat);
          repeat->max = 1;
        } else {
          repeat->lazy = true;
        }
      } else if (plain && take("+")) {
        possessive = true;
      }
      repeat->children.push_back(std::move(item));
      item = possessive ? wrap(Kind::kAtomic, std::move(repeat)) : std::move(repeat);
    }
  }

  // {n} {n,} {,m} {n,m}; anything else is a plain '{'.
  bool interval(RegexNode& repeat) {
    const std::size_t start = at_++;
    const auto number = [&]() -> std::optional<std::uint32_t> {
      if (peek() < '0' || peek() > '9') return std::nullopt;
      std::uint32_t value = 0;
      for (; peek() >= '0' && peek() <= '9'; ++at_) {
        value = value * 10 + static_cast<std::uint32_t>(peek() - '0');
        if (value > kMaxRepeat) wrong("a repetition count that is too large");
      }
      return value;
    };
    const auto low = number();
    std::optional<std::uint32_t> high = low;
    bool comma = false;
    if (take(",")) {
      comma = true;
      high = number();
    }
    if (!take("}") || (!low && !high)) {
      at_ = start;
      return false;
    }
    repeat.min = low.value_or(0);
    repeat.max = comma && !high ? RegexNode::kUnbounded : *high;
    if (repeat.max < repeat.min) wrong("a repetition whose bounds are the wrong way round");
    return true;
  }

  RegexNodePtr atom(Options& options, int depth) {
    if (peek() == '(') return group(options, depth);
    if (peek() == '[') return set_node(bracket(options, depth));
    if (peek() == '\\') return escaped(options);
    if (take(".")) {
      if (options.dot_all) return set_node(CharSet::of_class(0, true));
      CharSet set = CharSet::of_char('\n');
      set.negate();
      return set_node(std::move(set));
    }
    if (take("^")) return anchor_node(Anchor::kLineBegin);
    if (take("$")) return anchor_node(Anchor::kLineEnd);
    if (peek() == '*' || peek() == '+' || peek() == '?') wrong("a repetition of nothing");
    return char_node(take_char(), options);
  }

  RegexNodePtr char_node(char32_t code, const Options& options) {
    CharSet set = CharSet::of_char(code);
    if (options.ignore_case) set.ignore_case();
    return set_node(std::move(set));
  }

  RegexNodePtr closed(RegexNodePtr inner) {
    if (!take(")")) wrong("a '(' without its ')'");
    return inner;
  }

  RegexNodePtr group(Options& options, int depth) {
    ++at_;
    if (!take("?")) return closed(alternatives(options, depth + 1));
    if (take(":")) return closed(alternatives(options, depth + 1));
    if (take(">")) return wrap(Kind::kAtomic, closed(alternatives(options, depth + 1)));
    const bool behind = starts("<=") || starts("<!");
    if (behind || peek() == '=' || peek() == '!') {
      if (behind) ++at_;
      const bool negative = take_char() == '!';
      auto look = wrap(Kind::kLook, closed(alternatives(options, depth + 1)));
      look->negative = negative;
      look->behind = behind;
      return look;
    }
    if (peek() == '<' || peek() == '\'' || starts("P<")) {
      const char close = peek() == '\'' ? '\'' : '>';
      at_ += peek() == 'P' ? 2 : 1;
      while (!done() && peek() != close) ++at_;
      if (!take(std::string_view(&close, 1))) wrong("a group name without its end");
      return closed(alternatives(options, depth + 1));
    }
    if (peek() == '~') lacking("an absence operator (?~");
    if (peek() == '(') lacking("a condition (?(");
    return option_group(options, depth);
  }

  // (?i) for the rest of the enclosing group, alternatives included; (?i:...) for its own.
  RegexNodePtr option_group(const Options& outer, int depth) {
    Options options = outer;
    bool on = true;
    for (; !done() && peek() != ')' && peek() != ':'; ++at_) {
      switch (peek()) {
        case '-':
          on = false;
          break;
        case 'i':
          options.ignore_case = on;
          break;
        case 'm':
        case 's':
          options.dot_all = on;
          break;
        case 'x':
          options.extended = on;
          break;
        case 'u':
          break;  // Unicode: always
        default:
          lacking(std::string("a group (?") + peek());
      }
    }
    if (take(":")) return closed(alternatives(options, depth + 1));
    if (!take(")")) wrong("a '(' without its ')'");
    return alternatives(options, depth + 1);
  }

  // \d \p{..} ...; nullopt if the escape at `at_` is no set of characters.
  std::optional<CharSet> escaped_set(bool in_brackets) {
    const char c = peek(1);
    const bool negated = c >= 'A' && c <= 'Z';
    CharSet set;
    switch (c) {
      case 'd':
      case 'D':
        set = CharSet::of_class(kDigitClass);
        break;
      case 's':
      case 'S':
        set = CharSet::of_class(char_class::kSpace);
        break;
      case 'w':
      case 'W':
        set = in_brackets ? CharSet::word() : CharSet::word_alone();
        break;
      case 'h':
      case 'H':
        set = *CharSet::of_property("xdigit");
        break;
      case 'p':
      case 'P':
        return property(negated, in_brackets);
      default:
        return std::nullopt;
    }
    at_ += 2;
    if (negated) set.negate();
    return set;
  }

  CharSet property(bool negated, bool in_brackets) {
    at_ += 2;
    std::string_view name;
    if (take("{")) {
      if (take("^")) negated = !negated;
      const std::size_t end = text_.find('}', at_);
      if (end == std::string_view::npos) wrong("a \\p{ without its '}'");
      name = text_.substr(at_, end - at_);
      at_ = end + 1;
    } else {
      name = text_.substr(at_, 1);  // \pL, as other engines write it
      at_ += name.size();
    }
    const std::size_t equals = name.find('=');  // Script=Han
    auto set = CharSet::of_property(equals == std::string_view::npos ? name : name.substr(equals + 1));
    if (!set) lacking("the property \"" + std::string(name) + "\"");
    if (!in_brackets && (name == "Word" || name == "word")) set = CharSet::word_alone();
    if (negated) set->negate();
    return *std::move(set);
  }

  char32_t hex(std::size_t max_digits) {
    char32_t value = 0;
    std::size_t digits = 0;
    for (; digits < max_digits; ++digits, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value >= kInvalidChar) wrong("a code point that is too large");
    return value;
  }

  // The character of an escape that means one.
  char32_t escaped_char() {
    ++at_;
    if (done()) wrong("a '\\' at the end");
    const char c = peek();
    if (take("n")) return '\n';
    if (take("t")) return '\t';
    if (take("r")) return '\r';
    if (take("f")) return '\f';
    if (take("v")) return '\v';
    if (take("a")) return '\a';
    if (take("e")) return 0x1B;
    if (take("u")) return hex(4);
    if (take("x{")) {
      const char32_t code = hex(8);
      if (!take("}")) wrong("a \\x{ without its '}'");
      return code;
    }
    if (take("x")) return hex(2);
    if (c == '0') {
      char32_t code = 0;
      for (int i = 0; i < 3 && peek() >= '0' && peek() <= '7'; ++i, ++at_)
        code = code * 8 + static_cast<char32_t>(peek() - '0');
      return code;
    }
    if (c >= '1' && c <= '9') lacking("a reference back to a group");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      constexpr std::string_view kMeaningful = "kgKXyYORNCM";
      if (kMeaningful.find(c) != std::string_view::npos) lacking(std::string("the escape \\") + c);
    }
    return take_char();
  }

  RegexNodePtr escaped(const Options& options) {
    if (auto set = escaped_set(false)) {
      if (options.ignore_case) set->ignore_case();
      return set_node(*std::move(set));
    }
    switch (peek(1)) {
      case 'A':
      case 'G':  // every search of ours begins where the last match ended, which \G cannot tell from the text's begin
        if (peek(1) == 'G') lacking("the escape \\G");
        at_ += 2;
        return anchor_node(Anchor::kTextBegin);
      case 'z':
        at_ += 2;
        return anchor_node(Anchor::kTextEnd);
      case 'Z':
        at_ += 2;
        return anchor_node(Anchor::kTextEndOrLastNewline);
      case 'b':
        at_ += 2;
        return anchor_node(Anchor::kWord);
      case 'B':
        at_ += 2;
        return anchor_node(Anchor::kNoWord);
      case 'R':
        at_ += 2;
        return line_end();
      default:
        return char_node(escaped_char(), options);
    }
  }

  // \R: (?>\r\n|[\n\v\f\r\u0085\u2028\u2029])
  RegexNodePtr line_end() {
    auto pair = node(Kind::kConcat);
    pair->children.push_back(set_node(CharSet::of_char('\r')));
    pair->children.push_back(set_node(CharSet::of_char('\n')));
    CharSet single = CharSet::of_range('\n', '\r');
    single.add(CharSet::of_char(0x85));
    single.add(CharSet::of_range(0x2028, 0x2029));
    auto either = node(Kind::kAlternate);
    either->children.push_back(std::move(pair));
    either->children.push_back(set_node(std::move(single)));
    return wrap(Kind::kAtomic, std::move(either));
  }

  CharSet bracket(const Options& options, int depth) {
    if (depth > kMaxNesting) lacking("more nesting than weir allows");
    ++at_;
    CharSet whole;  // the intersection of what stood before each &&
    CharSet part;   // what is being collected
    bool cut = false, any = false;
    const bool negated = take("^");
    for (bool first = true; first || peek() != ']'; first = false) {
      if (done()) wrong("a '[' without its ']'");
      if (take("&&")) {
        meet(whole, std::move(part), cut);
        part = CharSet();
        cut = true;
        continue;
      }
      any = true;
      add_item(part, options, depth);
    }
    ++at_;
    if (!any) wrong("an empty set of characters");
    if (cut) {
      meet(whole, std::move(part), true);
      part = std::move(whole);
    }
    if (options.ignore_case) part.ignore_case();
    if (!negated) return part;
    CharSet inverse;
    inverse.add(std::move(part));
    inverse.negate();
    return inverse;
  }

  static void meet(CharSet& whole, CharSet part, bool cut) {
    if (!cut) {
      whole = std::move(part);
    } else {
      whole.intersect(std::move(part));
    }
  }

  void add_item(CharSet& part, const Options& options, int depth) {
    if (starts("[:") && add_posix(part)) return;
    if (peek() == '[') return part.add(bracket(options, depth + 1));
    if (peek() == '\\') {
      if (auto set = escaped_set(true)) return part.add(*std::move(set));
    }
    const char32_t low = set_char();
    if (peek() != '-' || peek(1) == ']' || (peek(1) == '&' && peek(2) == '&')) return part.add(CharSet::of_char(low));
    const std::size_t dash = at_++;
    if (peek() == '[') {
      at_ = dash;
      return part.add(CharSet::of_char(low));
    }
    if (peek() == '\\' && std::string_view("dDsSwWhHpP").find(peek(1)) != std::string_view::npos) {
      at_ = dash;  // the '-' stands for itself
      return part.add(CharSet::of_char(low));
    }
    const char32_t high = set_char();
    if (high < low) wrong("a range whose ends are the wrong way round");
    part.add(CharSet::of_range(low, high));
  }

  char32_t set_char() {
    if (peek() != '\\') return take_char();
    if (peek(1) == 'b') {
      at_ += 2;
      return '\b';
    }
    return escaped_char();
  }

  bool add_posix(CharSet& part) {
    const std::size_t end = text_.find(":]", at_ + 2);
    if (end == std::string_view::npos || end - at_ > 20) return false;
    std::string_view name = text_.substr(at_ + 2, end - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    for (const char c : name) {
      if (c < 'a' || c > 'z') return false;
    }
    auto set = CharSet::of_property(name);
    if (set && name == "punct") set->add(CharSet::of_class(char_class::kSymbol));
    if (!set) lacking("the class [:" + std::string(name) + ":]");
    if (negated) set->negate();
    part.add(*std::move(set));
    at_ = end + 2;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  ParsedRegex parsed_;
};

}  // namespace

Result<ParsedRegex> parse_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return fail(ErrorCode::kUnsupported, "a regular expression of the tokenizer has {} bytes; weir allows {}",
                pattern.size(), kMaxPatternBytes);
  }
  try {
    return Parser(pattern).parse();
  } catch (const SyntaxError& error) {
    return fail(ErrorCode::kUnsupported,
                "the tokenizer's regular expression \"{}\" does not compile: it has {} at byte {}{}",
                valid_utf8(pattern) ? pattern : "(not UTF-8)", error.what, error.at,
                error.unsupported ? ", which weir does not have" : "");
  }
}

}  // namespace weir::text
