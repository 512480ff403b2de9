// Filters on texts, numbers and single values.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "text/jinja/filters.h"
#include "text/jinja/interpreter_guards.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

// str(value), but markup stays markup.
Value soft_text(Interpreter& in, const Value& value) {
  return value.is_string() ? value : Value::string(to_text(value, in.budget()));
}

template <Text (*Change)(const Text&, Budget&)>
Value changed(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("filter", args, {});
  const Value text = soft_text(in, value);
  return Value::string(Change(text.text(), in.budget())).with_safe(text.is_safe());
}

// Jinja's title: words begin after white space and "-({[<".
Text title_words(const Text& text, Budget& budget) {
  budget.text(text.size());
  budget.step(text.size() / 8);
  TextBuilder out;
  UserCursor user(text);
  const std::string& bytes = text.bytes();
  bool start = true;
  std::size_t rest = 0;
  for (std::size_t at = 0; at < bytes.size(); at += char_size(static_cast<unsigned char>(bytes[at]))) {
    const char32_t c = decode_char(bytes, at);
    const bool mine = user.at(at);
    if (is_space(c) || c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<') {
      out.append_char(c, mine);
      start = true;
      continue;
    }
    if (start) {
      for (const char32_t changed : upper_of(c)) out.append_char(changed, mine);
      rest = at + char_size(static_cast<unsigned char>(bytes[at]));
    } else {
      // The rest of a word is lowered by itself: its first letter does not make a sigma final.
      for (const char32_t changed : lower_at(std::string_view(bytes).substr(rest), at - rest))
        out.append_char(changed, mine);
    }
    start = false;
  }
  return out.take();
}

Value filter_trim(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("trim", args, {"chars"});
  const Value text = soft_text(in, value);
  const Text* chars = bound.is_none(0) ? nullptr : &bound.string(0).text();
  return Value::string(strip(text.text(), chars, Side::kBoth, in.budget())).with_safe(text.is_safe());
}

Value filter_replace(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  const std::int64_t limit = bound.is_none(2) ? -1 : require_index(bound.at(2));
  Budget& budget = in.budget();
  return Value::string(
      replace(to_text(value, budget), to_text(bound.at(0), budget), to_text(bound.at(1), budget), limit, budget));
}

Value filter_string(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("string", args, {});
  return soft_text(in, value);
}

Value filter_safe(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("safe", args, {});
  return Value::string(to_text(value, in.budget())).with_safe(true);
}

Value filter_escape(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("escape", args, {});
  return Value::string(escaped(soft_text(in, value), in.budget())).with_safe(true);
}

Value filter_force_escape(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("forceescape", args, {});
  return Value::string(escape_html(to_text(value, in.budget()), in.budget())).with_safe(true);
}

Value filter_format(Interpreter& in, const Value& value, const Args& args) {
  if (!args.positional.empty() && !args.named.empty())
    raise("can't handle positional and keyword arguments at the same time");
  if (args.named.empty()) return format_percent(in, soft_text(in, value), make_tuple(args.positional, in.budget()));
  auto named = std::make_shared<DictObject>();
  for (const auto& [name, arg] : args.named) add_entry(*named, Value::string(name), arg, in.budget());
  return format_percent(in, soft_text(in, value), make_dict(std::move(named)));
}

Value filter_center(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("center", args, {"width"});
  const Value text = soft_text(in, value);
  const Value method = find_string_method(text, "center");
  return in.call(method, {{bound.has(0) ? bound.at(0) : Value::integer(80)}, {}});
}

Value filter_indent(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("indent", args, {"width", "first", "blank"});
  require_defined(value);
  if (!value.is_string()) raise("can only indent a string, not {}", type_name(value));
  Budget& budget = in.budget();
  Text indention("    ", false);
  if (bound.has(0) && bound.at(0).is_string()) {
    indention = bound.at(0).text();
  } else if (bound.has(0)) {
    TextBuilder spaces;
    append_padding(spaces, Text(" ", false),
                   static_cast<std::size_t>(std::max<std::int64_t>(require_index(bound.at(0)), 0)), budget);
    indention = spaces.take();
  }
  const bool first = bound.flag(1, false), blank = bound.flag(2, false);
  // As Jinja does it: a newline more at the end, so that a text that ends in one keeps it.
  TextBuilder with_newline;
  with_newline.append(value.text());
  with_newline.append("\n", false);
  const std::vector<Text> lines = split_lines(with_newline.take(), false, budget);
  TextBuilder out;
  if (first) out.append(indention);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) out.append("\n", false);
    if (i != 0 && (blank || lines[i].size() != 0)) out.append(indention);
    out.append(lines[i]);
    budget.limit(out.size());
  }
  budget.text(out.size());
  return Value::string(out.take()).with_safe(value.is_safe());
}

Value filter_truncate(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("truncate", args, {"length", "killwords", "end", "leeway"});
  const auto size = length_of(value);
  if (!size) raise("object of type '{}' has no len()", type_name(value));
  const Int length = bound.integer(0, 255);
  const Value end = bound.has(2) ? bound.string(2) : Value::string("...");
  const Int leeway = bound.is_none(3) ? Int{5} : bound.integer(3, 5);
  const auto end_length = static_cast<Int>(end.text().chars());
  if (length < end_length) raise("expected length >= {}, got {}", int_to_string(end_length), int_to_string(length));
  if (leeway < 0) raise("expected leeway >= 0, got {}", int_to_string(leeway));
  if (static_cast<Int>(*size) <= length + leeway) return value;
  if (!value.is_string()) raise("can only truncate a string, not {}", type_name(value));
  const Text& text = value.text();
  std::size_t cut = offset_of_char(text.bytes(), static_cast<std::size_t>(length - end_length));
  if (!bound.flag(1, false)) {
    const std::size_t space = std::string_view(text.bytes()).substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  TextBuilder out;
  out.append(text, 0, cut);
  out.append(end.text());
  in.budget().text(out.size());
  return Value::string(out.take()).with_safe(value.is_safe());
}

Value filter_word_count(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("wordcount", args, {});
  const Value text = soft_text(in, value);
  in.budget().scan(text.bytes().size() * 4);
  Int words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.bytes().size(); at += char_size(static_cast<unsigned char>(text.bytes()[at]))) {
    const char32_t c = decode_char(text.bytes(), at);
    const bool word = is_alpha(c) || is_numeric(c) || c == U'_';
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::integer(words);
}

std::string quote_url(std::string_view bytes, bool for_query) {
  std::string out;
  for (const char c : bytes) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out += c;
    } else if (c == ' ' && for_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Value filter_url_encode(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("urlencode", args, {});
  Budget& budget = in.budget();
  const auto quoted = [&](const Value& part, bool for_query) {
    const Text text = to_text(part, budget);
    budget.text(text.size() * 3);
    budget.step(text.size() / 8);
    return Text(quote_url(text.bytes(), for_query), text.has_user());
  };
  const bool pairs = is_iterable(value) && !value.is_string();
  if (!pairs) return Value::string(quoted(value, false));
  const Args none;
  const Value items = value.is_dict() ? in.call(find_attribute(in, value, "items"), none) : value;
  TextBuilder out;
  for (const Value& pair : in.to_items(items)) {
    const std::vector<Value> parts = in.to_items(pair);
    if (parts.size() != 2) raise("not enough values to unpack (expected 2, got {})", parts.size());
    if (out.size() != 0) out.append("&", false);
    out.append(quoted(parts[0], true));
    out.append("=", false);
    out.append(quoted(parts[1], true));
    budget.limit(out.size());
  }
  return Value::string(out.take());
}

Value filter_to_json(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensure_ascii = bound.flag(0, false);
  options.sort_keys = bound.flag(3, false);
  if (!bound.is_none(1)) {
    if (bound.at(1).is_string()) {
      options.indent = bound.at(1).bytes();
    } else {
      const std::int64_t width = std::max<std::int64_t>(require_index(bound.at(1)), 0);
      in.budget().text(static_cast<std::size_t>(width));
      options.indent = std::string(static_cast<std::size_t>(width), ' ');
    }
    options.item_separator = ",";
  }
  if (!bound.is_none(2)) {
    const std::vector<Value> separators = in.to_items(bound.at(2));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string())
      raise("tojson(): separators must be two strings");
    options.item_separator = separators[0].bytes();
    options.key_separator = separators[1].bytes();
  }
  return to_json(in, value, options);
}

std::string_view strip_space(std::string_view text) {
  while (!text.empty() && is_space(decode_char(text, 0)))
    text.remove_prefix(char_size(static_cast<unsigned char>(text[0])));
  while (!text.empty() && static_cast<unsigned char>(text.back()) < 0x80 &&
         is_space(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

// Removes single underscores between digits; nothing if one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || text[i + 1] == '_') {
      return std::nullopt;
    }
  }
  return out;
}

// Python's int(text, base).
std::optional<Int> parse_int(std::string_view text, int base) {
  constexpr std::size_t kMaxDigits = 300;  // more than any base needs for what integers can hold
  text = strip_space(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > kMaxDigits) return std::nullopt;
  std::optional<std::string> digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  if ((*digits)[0] == '0' && digits->size() > 2) {
    const char letter = static_cast<char>((*digits)[1] | 0x20);
    const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix != 0 && (base == prefix || base == 0)) {
      base = prefix;
      digits->erase(0, 2);
    }
  }
  if (base == 0) {
    if ((*digits)[0] == '0' && digits->find_first_not_of('0') != std::string::npos) return std::nullopt;
    base = 10;
  }
  Int value = 0;
  for (const char c : *digits) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 10
                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                             : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, Int{base}, &value) || __builtin_add_overflow(value, Int{digit}, &value))
      raise("the integer {} is too large", text);
  }
  return negative ? -value : value;
}

// Python's float(text).
std::optional<double> parse_real(std::string_view text) {
  text = strip_space(text);
  std::optional<std::string> plain = without_underscores(text);
  if (!plain) return std::nullopt;
  std::string_view rest = *plain;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  double value = 0;
  const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (result.ec == std::errc::invalid_argument || result.ptr != rest.data() + rest.size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) value = std::strtod(std::string(rest).c_str(), nullptr);
  return negative ? -value : value;
}

Value real_to_int(double real, bool user, const Value& fallback) {
  if (!std::isfinite(real)) return fallback;
  if (std::abs(real) >= 0x1p126) raise("the integer part of {} is too large", repr_of_real(real));
  return Value::integer(static_cast<Int>(real), user);
}

Value filter_int(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("int", args, {"default", "base"});
  const Value fallback = bound.has(0) ? bound.at(0) : Value::integer(0);
  const Int base = bound.integer(1, 10);
  require_defined(value);
  if (value.is(Kind::kFloat)) return real_to_int(value.as_real(), value.user(), fallback);
  if (value.is_integral()) return Value::integer(value.as_int(), value.user());
  if (!value.is_string()) return fallback;
  in.budget().scan(value.bytes().size() * 4);
  const bool user = value.text().has_user();
  if (base == 0 || (base >= 2 && base <= 36))
    if (const auto parsed = parse_int(value.bytes(), static_cast<int>(base))) return Value::integer(*parsed, user);
  const auto real = parse_real(value.bytes());
  return real ? real_to_int(*real, user, fallback) : fallback;
}

Value filter_float(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("float", args, {"default"});
  const Value fallback = bound.has(0) ? bound.at(0) : Value::real(0);
  require_defined(value);
  if (value.is_number()) return Value::real(value.as_real(), value.user());
  if (!value.is_string()) return fallback;
  in.budget().scan(value.bytes().size() * 4);
  const auto real = parse_real(value.bytes());
  return real ? Value::real(*real, value.text().has_user()) : fallback;
}

Value filter_abs(Interpreter&, const Value& value, const Args& args) {
  const Bound bound("abs", args, {});
  require_defined(value);
  if (value.is(Kind::kFloat)) return Value::real(std::abs(value.as_real()), value.user());
  if (!value.is_integral()) raise("bad operand type for abs(): '{}'", type_name(value));
  return Value::integer(value.as_int() < 0 ? -value.as_int() : value.as_int(), value.user());
}

// Rounds the exact decimal value half to even, as Python does; printf does the same.
double round_real(double value, std::int64_t digits) {
  constexpr std::int64_t kAllDigits = 323;  // no double has more behind the point
  if (!std::isfinite(value) || digits > kAllDigits) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) {
    char buffer[800];
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), value);
    return std::strtod(buffer, nullptr);
  }
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / unit) * unit;
}

Int round_int(Int value, std::int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -36) return 0;
  Int unit = 1;
  for (; digits < 0; ++digits) unit *= 10;
  Int rest = value % unit;
  if (rest < 0) rest += unit;
  const Int down = value - rest;
  const bool up = rest * 2 > unit || (rest * 2 == unit && (down / unit) % 2 != 0);
  return up ? down + unit : down;
}

Value filter_round(Interpreter&, const Value& value, const Args& args) {
  const Bound bound("round", args, {"precision", "method"});
  const std::int64_t precision = bound.has(0) ? require_index(bound.at(0)) : 0;
  const std::string_view method = bound.has(1) ? bound.string(1).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") raise("method must be common, ceil or floor");
  require_defined(value);
  if (!value.is_number()) raise("type {} doesn't define __round__ method", type_name(value));
  if (method == "common") {
    if (value.is_integral()) return Value::integer(round_int(value.as_int(), precision), value.user());
    return Value::real(round_real(value.as_real(), precision), value.user());
  }
  const double unit = std::pow(10.0, static_cast<double>(std::clamp<std::int64_t>(precision, -308, 308)));
  const double scaled = value.as_real() * unit;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit, value.user());
}

Value filter_default(Interpreter&, const Value& value, const Args& args) {
  const Bound bound("default", args, {"default_value", "boolean"});
  if (!value.is_undefined() && !(bound.flag(1, false) && !truth(value))) return value;
  return bound.has(0) ? bound.at(0) : Value::string("");
}

Value filter_attr(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("attr", args, {"name"}, 1);
  const std::string_view name = bound.string(0).bytes();
  require_defined(value);
  if (Value found = find_attribute(in, value, name); !found.is_missing()) return found;
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(value), name));
}

Value filter_file_size(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("filesizeformat", args, {"binary"});
  const bool binary = bound.flag(0, false);
  const Value number = filter_float(in, value, {});
  if (!value.is_number() && !(value.is_string() && parse_real(value.bytes())))
    raise("could not convert a {} to float", type_name(value));
  const double bytes = number.as_real(), base = binary ? 1024 : 1000;
  if (bytes == 1) return Value::string("1 Byte");
  if (bytes < base)
    return Value::string(fmt::format("{} Bytes", static_cast<std::int64_t>(std::max(bytes, -1e15))), value.user());
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  std::size_t prefix = 0;
  for (; prefix + 1 < kPrefixes.size() && bytes >= unit * base; ++prefix) unit *= base;
  const char letter = binary ? static_cast<char>(kPrefixes[prefix] & ~0x20) : kPrefixes[prefix];
  return Value::string(fmt::format("{:.1f} {}{}", bytes / unit, letter, binary ? "iB" : "B"), value.user());
}

Value filter_refused(Interpreter&, const Value&, const Args&) {
  raise("the filters pprint, random, striptags, urlize, wordwrap and xmlattr are not supported in chat templates");
}

constexpr Filter kFilters[] = {
    {"tojson", filter_to_json},
    {"trim", filter_trim},
    {"default", filter_default},
    {"d", filter_default},
    {"string", filter_string},
    {"upper", changed<upper>},
    {"lower", changed<lower>},
    {"capitalize", changed<capitalize>},
    {"title", changed<title_words>},
    {"replace", filter_replace},
    {"safe", filter_safe},
    {"indent", filter_indent},
    {"int", filter_int},
    {"float", filter_float},
    {"abs", filter_abs},
    {"round", filter_round},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_force_escape},
    {"format", filter_format},
    {"center", filter_center},
    {"truncate", filter_truncate},
    {"wordcount", filter_word_count},
    {"urlencode", filter_url_encode},
    {"attr", filter_attr},
    {"filesizeformat", filter_file_size},
    {"pprint", filter_refused},
    {"random", filter_refused},
    {"striptags", filter_refused},
    {"urlize", filter_refused},
    {"wordwrap", filter_refused},
    {"xmlattr", filter_refused},
};

}  // namespace

std::span<const Filter> text_filters() {
  return kFilters;
}

}  // namespace weir::text::jinja
