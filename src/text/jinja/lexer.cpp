#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

// Line ends become "\n", and one at the very end is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(decode_char(text, at))) at += char_size(static_cast<unsigned char>(text[at]));
  return at;
}

std::size_t strip_space_right(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t at = end - 1;
    while (at > 0 && is_continuation(static_cast<unsigned char>(text[at]))) --at;
    if (!is_space(decode_char(text, at))) break;
    end = at;
  }
  return end;
}

bool is_name_char(char32_t c) {
  return is_identifier_part(c) || is_numeric(c);
}
bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

int digit_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Python's string escapes.
class Unescaper {
 public:
  Unescaper(std::string_view raw, int line) : raw_(raw), line_(line) {}

  std::string run() {
    while (at_ < raw_.size()) {
      if (raw_[at_] != '\\' || at_ + 1 >= raw_.size()) {
        out_ += raw_[at_++];
        continue;
      }
      ++at_;
      escape();
    }
    return std::move(out_);
  }

 private:
  void escape() {
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = raw_[at_];
    if (const std::size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      out_ += kMeanings[letter];
      ++at_;
    } else if (c == '\n') {
      ++at_;
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      for (int i = 0; i < 3 && at_ < raw_.size() && raw_[at_] >= '0' && raw_[at_] <= '7'; ++i)
        code = code * 8 + static_cast<char32_t>(raw_[at_++] - '0');
      append_char(out_, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      ++at_;
      code_point(c, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
      raise_at(line_, "character names (\\N{{...}}) are not supported in strings; write the character itself");
    } else {
      out_ += '\\';
      if (static_cast<unsigned char>(c) >= 0x80) spell_out();
    }
  }

  void code_point(char letter, int digits) {
    char32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = at_ < raw_.size() ? digit_value(raw_[at_]) : 99;
      if (digit >= 16)
        raise_at(line_, "truncated \\{} escape in a string: {} hexadecimal digits expected", letter, digits);
      code = code * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      raise_at(line_, "the escape \\{}{:x} in a string is no character", letter, static_cast<std::uint32_t>(code));
    append_char(out_, code);
  }

  // Jinja decodes strings by way of ASCII escapes, so a backslash before another character keeps that character's
  // escape.
  void spell_out() {
    const char32_t c = decode_char(raw_, at_);
    const auto code = static_cast<std::uint32_t>(c);
    out_ += code < 0x100     ? fmt::format("x{:02x}", code)
            : code < 0x10000 ? fmt::format("u{:04x}", code)
                             : fmt::format("U{:08x}", code);
    at_ += char_size(static_cast<unsigned char>(raw_[at_]));
  }

  std::string_view raw_;
  int line_;
  std::size_t at_ = 0;
  std::string out_;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) root();
    push(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  Token& push(TokenKind kind, std::string_view text) {
    tokens_.push_back({kind, line_, std::string(text), 0, 0});
    return tokens_.back();
  }

  void move_to(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    if (to > at_) after_newline_ = source_[to - 1] == '\n';
    at_ = to;
  }

  char char_at(std::size_t at) const { return at < source_.size() ? source_[at] : '\0'; }

  // Text up to the next tag, and that tag.
  void root() {
    std::size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos) return data(source_.size(), source_.size());
      const char second = char_at(tag + 1);
      if (second == '%' || second == '#' || second == '{') break;
      ++tag;
    }
    const char second = source_[tag + 1];
    const char sign = char_at(tag + 2);
    const bool has_sign = sign == '-' || sign == '+';
    data(tag, trimmed_end(tag, has_sign ? sign : '\0', second != '{'));
    const std::size_t inside = tag + (has_sign ? 3 : 2);
    if (second == '#') return comment(inside);
    if (second == '%') {
      if (const std::size_t body = raw_body(inside); body != 0) return raw(body);
    }
    push(second == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, {});
    move_to(inside);
    tag_content(second == '{');
  }

  // Where the text before a tag ends: without all its white space ("-"), or without the indentation of a line that has
  // only this tag.
  std::size_t trimmed_end(std::size_t tag, char sign, bool may_lstrip) const {
    const std::string_view text = source_.substr(at_, tag - at_);
    if (sign == '-') return at_ + strip_space_right(text);
    if (sign == '+' || !may_lstrip) return tag;
    const std::size_t newline = text.rfind('\n');
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == 0 && !(at_ == 0 || after_newline_)) return tag;
    return skip_space(text, line) == text.size() ? at_ + line : tag;
  }

  void data(std::size_t to, std::size_t trimmed) {
    if (trimmed > at_) push(TokenKind::kData, source_.substr(at_, trimmed - at_));
    move_to(to);
  }

  // The end of a block or comment tag at `at`: "%}" takes one newline with it, "-%}" all white space, "+%}" nothing. 0:
  // no end here.
  std::size_t tag_end(std::size_t at, std::string_view mark) const {
    const char sign = char_at(at);
    if (sign == '-' || sign == '+') {
      if (source_.substr(at + 1, 2) != mark) return 0;
      return sign == '-' ? skip_space(source_, at + 3) : at + 3;
    }
    if (source_.substr(at, 2) != mark) return 0;
    return char_at(at + 2) == '\n' ? at + 3 : at + 2;
  }

  void comment(std::size_t inside) {
    std::size_t close = source_.find("#}", inside);
    if (close == std::string_view::npos) raise_at(line_, "Missing end of comment tag");
    if (close > inside && (source_[close - 1] == '-' || source_[close - 1] == '+')) --close;
    move_to(tag_end(close, "#}"));
  }

  // Behind "{% raw %}", if that is what begins here; else 0.
  std::size_t raw_body(std::size_t inside) const {
    std::size_t at = skip_space(source_, inside);
    if (source_.substr(at, 3) != "raw") return 0;
    at = skip_space(source_, at + 3);
    if (source_.substr(at, 2) == "%}") return at + 2;
    return source_.substr(at, 3) == "-%}" ? skip_space(source_, at + 3) : 0;
  }

  void raw(std::size_t body) {
    const int first_line = line_;
    move_to(body);
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != std::string_view::npos; tag += 2) {
      const char sign = char_at(tag + 2);
      const bool has_sign = sign == '-' || sign == '+';
      std::size_t at = skip_space(source_, tag + (has_sign ? 3 : 2));
      if (source_.substr(at, 6) != "endraw") continue;
      at = skip_space(source_, at + 6);
      const std::size_t end = tag_end(at, "%}");
      if (end == 0) continue;
      data(tag, trimmed_end(tag, has_sign ? sign : '\0', true));
      return move_to(end);
    }
    raise_at(first_line, "Missing end of raw directive");
  }

  // Tokens up to the end of a tag. "}}" inside braces is no end.
  void tag_content(bool variable) {
    std::vector<char> open;
    while (at_ < source_.size()) {
      if (open.empty() && at_end_of_tag(variable)) return;
      const char32_t c = decode_char(source_, at_);
      if (is_space(c)) {
        move_to(skip_space(source_, at_));
      } else if (is_ascii_digit(source_[at_])) {
        number();
      } else if (is_name_char(c)) {
        name();
      } else if (c == U'\'' || c == U'"') {
        string();
      } else {
        punctuation(open);
      }
    }
  }

  bool at_end_of_tag(bool variable) {
    std::size_t end = 0;
    if (!variable) {
      end = tag_end(at_, "%}");
    } else if (source_.substr(at_, 2) == "}}") {
      end = at_ + 2;
    } else if (source_.substr(at_, 3) == "-}}") {
      end = skip_space(source_, at_ + 3);
    }
    if (end == 0) return false;
    push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, {});
    move_to(end);
    return true;
  }

  void name() {
    std::size_t end = at_;
    bool first = true;
    for (; end < source_.size() && is_name_char(decode_char(source_, end));
         end += char_size(static_cast<unsigned char>(source_[end]))) {
      const char32_t c = decode_char(source_, end);
      if (first ? !is_identifier_start(c) : !is_identifier_part(c)) raise_at(line_, "Invalid character in identifier");
      first = false;
    }
    push(TokenKind::kName, source_.substr(at_, end - at_));
    move_to(end);
  }

  void string() {
    const char quote = source_[at_];
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      raise_at(line_, "unexpected char {}: the string has no end", repr_of_string({&quote, 1}));
    push(TokenKind::kString, Unescaper(source_.substr(at_ + 1, end - at_ - 1), line_).run());
    move_to(end + 1);
  }

  // Digits with single underscores between them.
  std::size_t digits(std::size_t at, int base) const {
    while (at < source_.size()) {
      if (digit_value(source_[at]) < base) {
        ++at;
      } else if (source_[at] == '_' && digit_value(char_at(at + 1)) < base) {
        at += 2;
      } else {
        break;
      }
    }
    return at;
  }

  void number() {
    if (const std::size_t end = float_end(); end != 0) {
      std::string text(source_.substr(at_, end - at_));
      std::erase(text, '_');
      double value = 0;
      const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
      if (result.ec == std::errc::result_out_of_range) raise_at(line_, "the number {} is too large", text);
      push(TokenKind::kFloat, text).real = value;
      return move_to(end);
    }
    int base = 10;
    std::size_t first = at_;
    if (source_[at_] == '0') {
      const char letter = static_cast<char>(char_at(at_ + 1) | 0x20);
      const int wanted = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
      const std::size_t digit = at_ + 2 + (char_at(at_ + 2) == '_' ? 1 : 0);
      if (wanted != 0 && digit_value(char_at(digit)) < wanted) {
        base = wanted;
        first = digit;
      }
    }
    std::size_t end = digits(first, base);
    if (base == 10 && source_[at_] == '0') {  // decimal numbers do not begin with 0: "012" is 0 and then 12
      end = at_ + 1;
      while (char_at(end) == '0' || (char_at(end) == '_' && char_at(end + 1) == '0')) ++end;
    }
    push(TokenKind::kInteger, source_.substr(at_, end - at_)).integer =
        integer(source_.substr(first, end - first), base);
    move_to(end);
  }

  Int integer(std::string_view text, int base) const {
    Int value = 0;
    for (const char c : text) {
      if (c == '_') continue;
      if (__builtin_mul_overflow(value, Int{base}, &value) ||
          __builtin_add_overflow(value, Int{digit_value(c)}, &value))
        raise_at(line_, "the number {} is too large", text);
    }
    return value;
  }

  // The end of a floating point number, 0 if there is none here.
  std::size_t float_end() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return 0;  // x.1.5
    std::size_t end = digits(at_, 10);
    bool is_float = false;
    if (char_at(end) == '.' && is_ascii_digit(char_at(end + 1))) {
      end = digits(end + 1, 10);
      is_float = true;
    }
    if (char_at(end) == 'e' || char_at(end) == 'E') {
      const std::size_t digit = end + (char_at(end + 1) == '+' || char_at(end + 1) == '-' ? 2 : 1);
      if (is_ascii_digit(char_at(digit))) {
        end = digits(digit, 10);
        is_float = true;
      }
    }
    return is_float ? end : 0;
  }

  void punctuation(std::vector<char>& open) {
    static constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                    ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* found = std::find_if(kOperators.begin(), kOperators.end(), [&](std::string_view symbol) {
      return source_.substr(at_, symbol.size()) == symbol;
    });
    if (found == kOperators.end()) {
      const auto size = char_size(static_cast<unsigned char>(source_[at_]));
      raise_at(line_, "unexpected char {} at {}", repr_of_string(source_.substr(at_, size)), at_);
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) raise_at(line_, "unexpected '{}'", c);
      if (open.back() != c) raise_at(line_, "unexpected '{}', expected '{}'", c, open.back());
      open.pop_back();
    }
    push(TokenKind::kOperator, *found);
    move_to(at_ + found->size());
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool after_newline_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (source.size() > kMaxTemplateBytes)
    raise_at(1, "the template has {} bytes, more than {} are not allowed", source.size(), kMaxTemplateBytes);
  if (!is_valid_utf8(source)) raise_at(1, "the template is not valid UTF-8");
  const std::string normalized = normalize_newlines(source);
  return Lexer(normalized).run();
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kEnd:
      return "end of template";
    default:
      return token.text;
  }
}

}  // namespace weir::text::jinja
