// Python's two ways to format: "%d" % values and "{:d}".format(values).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

// Digits a double can be printed with; more are refused rather than padded with zeros.
constexpr std::int64_t kMaxPrecision = 400;

struct Spec {
  Text fill{" ", false};
  char align = 0;  // < > ^ =
  char sign = '-';
  bool alternate = false;
  char grouping = 0;  // , or _
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = 0;
};

// The digits of a finite double in the given style; 'r' is repr.
std::string real_digits(double value, char type, std::int64_t precision, bool alternate) {
  if (std::isnan(value)) return type >= 'A' && type <= 'Z' ? "NAN" : "nan";
  if (std::isinf(value)) return type >= 'A' && type <= 'Z' ? "INF" : "inf";
  if (type == 'r') return repr_of_real(value);
  const char style[] = {
      '%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type, alternate ? type : '\0', '\0'};
  char buffer[1024];  // 309 digits before the point, kMaxPrecision behind it
  const int size = std::snprintf(buffer, sizeof buffer, style, static_cast<int>(precision < 0 ? 6 : precision), value);
  return {buffer, static_cast<std::size_t>(size)};
}

std::string int_digits(Int value, int base, bool capitals) {
  auto rest = value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  if (base == 10) return int_to_string(value < 0 ? -value : value);
  std::string digits;
  do {
    const auto digit = static_cast<int>(rest % static_cast<unsigned>(base));
    digits += static_cast<char>(digit < 10 ? '0' + digit : (capitals ? 'A' : 'a') + digit - 10);
    rest /= static_cast<unsigned>(base);
  } while (rest != 0);
  return {digits.rbegin(), digits.rend()};
}

std::string group_digits(const std::string& digits, char separator, std::size_t every) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i != 0 && (whole - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

void check_precision(std::int64_t precision) {
  if (precision > kMaxPrecision)
    raise("a precision of {} digits is too big, more than {} are not allowed", precision, kMaxPrecision);
}

Text align(const Text& body, const Spec& spec, char fallback, std::size_t sign_size, Budget& budget) {
  const auto length = static_cast<std::int64_t>(body.chars());
  if (spec.width <= length) return body;
  const std::int64_t pad = spec.width - length;
  const char how = spec.align != 0 ? spec.align : fallback;
  const std::int64_t left = how == '<' || how == '=' ? 0 : how == '>' ? pad : pad / 2;
  TextBuilder out;
  if (how == '=') {
    out.append(body, 0, sign_size);
    append_padding(out, spec.fill, static_cast<std::size_t>(pad), budget);
    out.append(body, sign_size, body.size());
  } else {
    append_padding(out, spec.fill, static_cast<std::size_t>(left), budget);
    out.append(body);
    append_padding(out, spec.fill, static_cast<std::size_t>(pad - left), budget);
  }
  budget.text(out.size());
  return out.take();
}

std::string sign_of(bool negative, char sign) {
  return negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

Text format_int(const Value& value, Spec spec, Budget& budget) {
  const char type = spec.type == 0 || spec.type == 'n' ? 'd' : spec.type;
  if (spec.precision >= 0) raise("Precision not allowed in integer format specifier");
  if (type == 'c') {
    if (value.as_int() < 0 || value.as_int() > 0x10FFFF || (value.as_int() >= 0xD800 && value.as_int() < 0xE000))
      raise("%c arg not in range(0x110000)");
    std::string c;
    append_char(c, static_cast<char32_t>(value.as_int()));
    return align(Text(c, value.user()), spec, '<', 0, budget);
  }
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  std::string prefix = sign_of(value.as_int() < 0, spec.sign);
  if (spec.alternate && base != 10) prefix += std::string("0") + type;
  std::string digits = int_digits(value.as_int(), base, type == 'X');
  if (spec.grouping != 0) digits = group_digits(digits, spec.grouping, base == 10 ? 3 : 4);
  return align(Text(prefix + digits, value.user()), spec, '>', prefix.size(), budget);
}

Text format_real(const Value& value, const Spec& spec, Budget& budget) {
  check_precision(spec.precision);
  const double real = value.as_real();
  const bool percent = spec.type == '%';
  char type = percent ? 'f' : spec.type == 'n' ? 'g' : spec.type;
  if (type == 0) type = spec.precision >= 0 ? 'g' : 'r';
  const double magnitude = std::abs(percent ? real * 100 : real);
  std::string digits = real_digits(magnitude, type, spec.precision, spec.alternate);
  if (spec.type == 0 && spec.precision >= 0 && digits.find_first_of(".en") == std::string::npos) digits += ".0";
  if (percent) digits += '%';
  if (spec.grouping != 0) digits = group_digits(digits, spec.grouping, 3);
  const std::string prefix = sign_of(std::signbit(real), spec.sign);
  return align(Text(prefix + digits, value.user()), spec, '>', prefix.size(), budget);
}

Text format_string(const Text& text, const Spec& spec, Budget& budget) {
  if (spec.sign != '-') raise("Sign not allowed in string format specifier");
  if (spec.align == '=') raise("'=' alignment not allowed in string format specifier");
  if (spec.precision < 0 || static_cast<std::size_t>(spec.precision) >= text.chars())
    return align(text, spec, '<', 0, budget);
  const std::size_t end = offset_of_char(text.bytes(), static_cast<std::size_t>(spec.precision));
  return align(slice(text, 0, end), spec, '<', 0, budget);
}

class SpecParser {
 public:
  explicit SpecParser(std::string_view text) : text_(text) {}

  Spec run() {
    fill_and_align();
    if (at("+- ")) spec_.sign = text_[at_++];
    if (at("z")) raise("the format option z is not supported");
    if (at("#")) spec_.alternate = (++at_, true);
    if (at("0")) {
      ++at_;
      if (spec_.align == 0) {
        spec_.align = '0';  // "=" for numbers, "<" for strings
        spec_.fill = Text("0", false);
      }
    }
    spec_.width = number();
    if (at(",_")) spec_.grouping = text_[at_++];
    if (at(".")) {
      ++at_;
      if (!at("0123456789")) raise("Format specifier missing precision");
      spec_.precision = number();
    }
    if (at_ < text_.size()) spec_.type = text_[at_++];
    if (at_ < text_.size()) raise("Invalid format specifier");
    return spec_;
  }

 private:
  bool at(std::string_view any) const { return at_ < text_.size() && any.find(text_[at_]) != std::string_view::npos; }

  void fill_and_align() {
    constexpr std::string_view kAligns = "<>=^";
    if (text_.empty()) return;
    const std::size_t size = char_size(static_cast<unsigned char>(text_[0]));
    if (size < text_.size() && kAligns.find(text_[size]) != std::string_view::npos) {
      spec_.fill = Text(std::string(text_.substr(0, size)), false);
      spec_.align = text_[size];
      at_ = size + 1;
    } else if (at(kAligns)) {
      spec_.align = text_[at_++];
    }
  }

  std::int64_t number() {
    std::int64_t value = 0;
    while (at("0123456789")) {
      value = value * 10 + (text_[at_++] - '0');
      if (value > static_cast<std::int64_t>(kMaxTextBytes))
        raise("a width of more than {} is not allowed", kMaxTextBytes);
    }
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Spec spec_;
};

// Python's format(value, spec).
Text format_value(const Value& value, std::string_view spec_text, Budget& budget) {
  if (spec_text.empty()) return to_text(value, budget);
  Spec spec = SpecParser(spec_text).run();
  const bool zero_fill = spec.align == '0';
  if (zero_fill) spec.align = value.is_number() ? '=' : '<';
  constexpr std::string_view kRealTypes = "eEfFgG%";
  if (value.is_string()) {
    if (spec.type != 0 && spec.type != 's') raise("Unknown format code '{}' for object of type 'str'", spec.type);
    return format_string(value.text(), spec, budget);
  }
  if (value.is_integral() && kRealTypes.find(spec.type == 0 ? 'd' : spec.type) == std::string_view::npos) {
    if (spec.type != 0 && std::string_view("bcdoxXn").find(spec.type) == std::string_view::npos)
      raise("Unknown format code '{}' for object of type 'int'", spec.type);
    return format_int(value, spec, budget);
  }
  if (value.is_number()) {
    if (spec.type != 0 && spec.type != 'n' && kRealTypes.find(spec.type) == std::string_view::npos)
      raise("Unknown format code '{}' for object of type 'float'", spec.type);
    return format_real(value, spec, budget);
  }
  raise("unsupported format string passed to {}.__format__", type_name(value));
}

Value convert(const Value& value, char conversion, Budget& budget) {
  switch (conversion) {
    case 's':
      return Value::string(to_text(value, budget));
    case 'r':
    case 'a': {
      std::string repr = to_repr(value, budget);
      return Value::string(std::move(repr), has_user_data(value));
    }
    default:
      raise("Unknown conversion specifier '{}'", conversion);
  }
}

// str.format.
class BraceFormatter {
 public:
  BraceFormatter(Interpreter& in, const Args& args, bool safe) : in_(in), args_(args), safe_(safe) {}

  Text run(const Text& format, int depth) {
    if (depth > 1) raise("Max string recursion exceeded");
    const std::string& bytes = format.bytes();
    TextBuilder out;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(format, at, brace);
      if (brace == bytes.size()) break;
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
        out.append(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') raise("Single '}}' encountered in format string");
      const std::size_t end = field_end(bytes, brace);
      out.append(field(slice(format, brace + 1, end), depth));
      in_.budget().step();
      in_.budget().limit(out.size());
      at = end + 1;
    }
    in_.budget().text(out.size());
    return out.take();
  }

 private:
  static std::size_t field_end(std::string_view bytes, std::size_t open) {
    int depth = 0;
    for (std::size_t at = open; at < bytes.size(); ++at) {
      if (bytes[at] == '{') ++depth;
      if (bytes[at] == '}' && --depth == 0) return at;
    }
    raise("expected '}}' before end of string");
  }

  Text field(const Text& inside, int depth) {
    const std::string& bytes = inside.bytes();
    std::size_t name_end = 0;
    for (bool bracket = false; name_end < bytes.size(); ++name_end) {
      if (bytes[name_end] == '[') bracket = true;
      if (bytes[name_end] == ']') bracket = false;
      if (!bracket && (bytes[name_end] == ':' || bytes[name_end] == '!')) break;
    }
    Value value = lookup(std::string_view(bytes).substr(0, name_end));
    std::size_t spec_at = name_end;
    if (spec_at < bytes.size() && bytes[spec_at] == '!') {
      if (spec_at + 1 >= bytes.size()) raise("end of string while looking for conversion specifier");
      value = convert(value, bytes[spec_at + 1], in_.budget());
      spec_at += 2;
      if (spec_at < bytes.size() && bytes[spec_at] != ':') raise("expected ':' after conversion specifier");
    }
    std::string spec;
    if (spec_at < bytes.size()) spec = run(slice(inside, spec_at + 1, bytes.size()), depth + 1).bytes();
    const Text text = format_value(value, spec, in_.budget());
    return safe_ && !(value.is_string() && value.is_safe()) ? escape_html(text, in_.budget()) : text;
  }

  Value lookup(std::string_view name) {
    const std::size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, first_end));
    for (std::size_t at = first_end; at < name.size();) {
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) raise("Empty attribute in format string");
        value = in_.attribute(value, name.substr(at + 1, end - at - 1));
        at = end;
      } else if (name[at] == '[') {
        const std::size_t end = name.find(']', at);
        if (end == std::string_view::npos) raise("Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, end - at - 1);
        if (key.empty()) raise("Empty attribute in format string");
        value = in_.item(value, is_index(key) ? Value::integer(index_of(key)) : Value::string(std::string(key)));
        at = end + 1;
      } else {
        raise("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static bool is_index(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  static Int index_of(std::string_view digits) {
    if (digits.size() > 18) raise("Too many decimal digits in format string");
    Int value = 0;
    for (const char c : digits) value = value * 10 + (c - '0');
    return value;
  }

  Value first(std::string_view name) {
    if (name.empty() || is_index(name)) {
      const Int index = name.empty() ? Int{next_++} : index_of(name);
      if (index >= static_cast<Int>(args_.positional.size()))
        raise("Replacement index {} out of range for positional args tuple", int_to_string(index));
      return args_.positional[static_cast<std::size_t>(index)];
    }
    for (const auto& [known, value] : args_.named)
      if (known == name) return value;
    raise("no argument {} for the format", repr_of_string(name));
  }

  Interpreter& in_;
  const Args& args_;
  bool safe_;
  std::int64_t next_ = 0;
};

// "%..." % values.
class PercentFormatter {
 public:
  PercentFormatter(Interpreter& in, const Value& format, const Value& args) : in_(in), format_(format), args_(args) {}

  Text run() {
    const Text& text = format_.text();
    const std::string& bytes = text.bytes();
    TextBuilder out;
    while (at_ < bytes.size()) {
      const std::size_t percent = std::min(bytes.find('%', at_), bytes.size());
      out.append(text, at_, percent);
      at_ = percent;
      if (percent == bytes.size()) break;
      ++at_;
      conversion(out, percent);
      in_.budget().step();
      in_.budget().limit(out.size());
    }
    // Python lets everything that has items go unused, because it could have been meant as a mapping.
    const bool has_items = args_.is_dict() || args_.is_list() || args_.is(Kind::kRange) || args_.is_undefined();
    if ((!args_.is_tuple() && !has_items && used_ == 0) || (args_.is_tuple() && used_ < args_.list().items.size()))
      raise("not all arguments converted during string formatting");
    in_.budget().text(out.size());
    return out.take();
  }

 private:
  char current() const {
    if (at_ >= format_.bytes().size()) raise("incomplete format");
    return format_.bytes()[at_];
  }

  const Value& next_arg() {
    if (args_.is_tuple()) {
      if (used_ >= args_.list().items.size()) raise("not enough arguments for format string");
      return args_.list().items[used_++];
    }
    if (used_++ > 0) raise("not enough arguments for format string");
    return args_;
  }

  std::int64_t number() {
    if (current() == '*') {
      ++at_;
      const std::int64_t value = require_index(next_arg());
      if (std::abs(value) > static_cast<std::int64_t>(kMaxTextBytes))
        raise("a width of more than {} is not allowed", kMaxTextBytes);
      return value;
    }
    std::int64_t value = 0;
    while (current() >= '0' && current() <= '9') {
      value = value * 10 + (format_.bytes()[at_++] - '0');
      if (value > static_cast<std::int64_t>(kMaxTextBytes))
        raise("a width of more than {} is not allowed", kMaxTextBytes);
    }
    return value;
  }

  Value keyed() {
    if (!args_.is_dict()) raise("format requires a mapping");
    const std::string_view bytes = format_.bytes();
    const std::size_t begin = ++at_;
    int depth = 1;
    for (; depth > 0; ++at_) depth += current() == '(' ? 1 : current() == ')' ? -1 : 0;
    const std::string_view key = bytes.substr(begin, at_ - 1 - begin);
    const Value* found = args_.dict().find(key);
    if (found == nullptr) raise("no value {} for the format", repr_of_string(key));
    return *found;
  }

  void conversion(TextBuilder& out, std::size_t percent) {
    Spec spec;
    std::optional<Value> value;
    if (current() == '(') value = keyed();
    bool zero = false, left = false;
    for (; std::string_view("#0- +").find(current()) != std::string_view::npos; ++at_) {
      spec.alternate = spec.alternate || current() == '#';
      zero = zero || current() == '0';
      left = left || current() == '-';
      if (current() == '+' || (current() == ' ' && spec.sign != '+')) spec.sign = current();
    }
    spec.width = number();
    if (spec.width < 0) left = true;
    spec.width = std::abs(spec.width);
    if (current() == '.') {
      ++at_;
      spec.precision = std::max(number(), std::int64_t{0});
    }
    if (std::string_view("hlL").find(current()) != std::string_view::npos) ++at_;
    spec.type = current();
    ++at_;
    if (spec.type == '%') return out.append("%", false);
    if (!value) value = next_arg();
    spec.align = left ? '<' : '>';
    if (zero && !left && spec.type != 's' && spec.type != 'r' && spec.type != 'a' && spec.type != 'c') {
      spec.align = '=';
      spec.fill = Text("0", false);
    }
    out.append(converted(*value, spec, percent));
  }

  Text converted(const Value& value, Spec spec, std::size_t percent) {
    Budget& budget = in_.budget();
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        const Value text = convert(value, spec.type, budget);
        spec.sign = '-';
        const bool escape = format_.is_safe() && !(value.is_string() && value.is_safe() && spec.type == 's');
        return format_string(escape ? escape_html(text.text(), budget) : text.text(), spec, budget);
      }
      case 'c':
        if (value.is_string() && value.text().chars() == 1) return align(value.text(), spec, '>', 0, budget);
        if (!value.is_integral()) raise("%c requires int or char");
        spec.precision = -1;
        return format_int(value, spec, budget);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        require_defined(value);
        if (!value.is_number()) raise("must be real number, not {}", type_name(value));
        return format_real(value, spec, budget);
      default:
        raise("unsupported format character '{}' (0x{:x}) at index {}", spec.type,
              static_cast<unsigned char>(spec.type), percent);
    }
  }

  Text integer(const Value& value, Spec spec) {
    require_defined(value);
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    Value whole = value;
    if (value.is(Kind::kFloat) && decimal) {
      if (!(std::abs(value.as_real()) < 0x1p120)) raise("cannot convert this float to integer");
      whole = Value::integer(static_cast<Int>(value.as_real()), value.user());
    } else if (!value.is_integral()) {
      raise("%{} format: {} is required, not {}", spec.type, decimal ? "a real number" : "an integer",
            type_name(value));
    }
    if (decimal) spec.type = 'd';
    if (spec.precision < 0) return format_int(whole, spec, in_.budget());
    check_precision(spec.precision);
    Spec digits;
    digits.type = spec.type;
    digits.width = spec.precision;
    digits.align = '=';
    digits.fill = Text("0", false);
    const bool negative = whole.as_int() < 0;
    const Text body =
        format_int(Value::integer(negative ? -whole.as_int() : whole.as_int(), whole.user()), digits, in_.budget());
    const std::string prefix = sign_of(negative, spec.sign);
    return align(Text(prefix + body.bytes(), whole.user()), spec, '>', prefix.size(), in_.budget());
  }

  Interpreter& in_;
  const Value& format_;
  const Value& args_;
  std::size_t at_ = 0, used_ = 0;
};

}  // namespace

Value format_percent(Interpreter& in, const Value& format, const Value& args) {
  return Value::string(PercentFormatter(in, format, args).run()).with_safe(format.is_safe());
}

Value format_braces(Interpreter& in, const Value& format, const Args& args) {
  return Value::string(BraceFormatter(in, args, format.is_safe()).run(format.text(), 0)).with_safe(format.is_safe());
}

}  // namespace weir::text::jinja
