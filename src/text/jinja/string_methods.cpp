// The methods of strings.

#include <algorithm>
#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

Value like(const Value& self, Text text) {
  return Value::string(std::move(text)).with_safe(self.is_safe());
}

Value list_of(Interpreter& in, const Value& self, std::vector<Text> texts) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (Text& text : texts) items.push_back(like(self, std::move(text)));
  return make_list(std::move(items), in.budget());
}

template <Text (*Change)(const Text&, Budget&)>
Value changed(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("str method", args, {});
  return like(self, Change(self.text(), in.budget()));
}

template <Side side>
Value stripped(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("strip", args, {"chars"});
  const Text* chars = bound.is_none(0) ? nullptr : &bound.string(0).text();
  return like(self, strip(self.text(), chars, side, in.budget()));
}

template <bool from_right>
Value split_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("split", args, {"sep", "maxsplit"});
  const Text* separator = bound.is_none(0) ? nullptr : &bound.string(0).text();
  const std::int64_t limit = bound.has(1) ? require_index(bound.at(1)) : -1;
  return list_of(in, self, split(self.text(), separator, limit, from_right, in.budget()));
}

Value split_lines_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("splitlines", args, {"keepends"});
  return list_of(in, self, split_lines(self.text(), bound.flag(0, false), in.budget()));
}

template <bool from_right>
Value partition(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("partition", args, {"sep"}, 1);
  const Text& separator = bound.string(0).text();
  if (separator.size() == 0) raise("empty separator");
  const Text& text = self.text();
  in.budget().text(text.size());
  in.budget().scan(text.size());
  const std::size_t at =
      from_right ? find_last(text.bytes(), separator.bytes()) : find_first(text.bytes(), separator.bytes(), 0);
  const Value nothing = like(self, Text());
  if (at == std::string_view::npos)
    return make_tuple(
        from_right ? std::vector<Value>{nothing, nothing, self} : std::vector<Value>{self, nothing, nothing},
        in.budget());
  const std::size_t end = at + separator.size();
  return make_tuple(
      {like(self, slice(text, 0, at)), like(self, slice(text, at, end)), like(self, slice(text, end, text.size()))},
      in.budget());
}

Value replace_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  const Value& to = bound.string(1);
  const Text replacement = self.is_safe() ? escaped(to, in.budget()) : to.text();
  const std::int64_t limit = bound.has(2) ? require_index(bound.at(2)) : -1;
  return like(self, replace(self.text(), bound.string(0).text(), replacement, limit, in.budget()));
}

Value join_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("join", args, {"iterable"}, 1);
  TextBuilder out;
  std::size_t count = 0;
  const auto items = in.iterate(bound.at(0));
  for (Value item; items->next(in, item); ++count) {
    in.budget().step();
    if (!item.is_string() && !self.is_safe())
      raise("sequence item {}: expected str instance, {} found", count, type_name(item));
    if (count != 0) out.append(self.text());
    if (self.is_safe()) {
      const Text text = to_text(item, in.budget());
      out.append(item.is_string() && item.is_safe() ? text : escape_html(text, in.budget()));
    } else {
      out.append(item.text());
    }
    in.budget().limit(out.size());
  }
  in.budget().text(out.size());
  return like(self, out.take());
}

// The part of a text between two character positions given as in a slice.
struct Window {
  std::string_view bytes;
  std::size_t first_char = 0;
  bool outside = false;  // start is behind the end of the text: nothing is found there, not even ""
};

Window window_of(Interpreter& in, const Value& self, const Bound& bound) {
  const Text& text = self.text();
  in.budget().scan(text.size());
  const auto length = static_cast<Int>(text.chars());
  const auto position = [&](std::size_t i, Int fallback) {
    if (bound.is_none(i)) return fallback;
    const Int at = require_index(bound.at(i));
    return at < 0 ? std::max(at + length, Int{0}) : at;
  };
  const Int start = position(1, 0), stop = std::min(position(2, length), length);
  if (start > stop) return {{}, 0, true};
  const std::string_view all = text.bytes();
  const std::size_t begin =
      text.is_ascii() ? static_cast<std::size_t>(start) : offset_of_char(all, static_cast<std::size_t>(start));
  const std::size_t end =
      text.is_ascii() ? static_cast<std::size_t>(stop) : offset_of_char(all, static_cast<std::size_t>(stop));
  return {all.substr(begin, end - begin), static_cast<std::size_t>(start), false};
}

template <bool at_end>
Value has_affix(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound(at_end ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1);
  const Window window = window_of(in, self, bound);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string())
      raise("{} first arg must be str or a tuple of str, not {}", at_end ? "endswith" : "startswith", type_name(affix));
    if (window.outside) return false;
    return at_end ? window.bytes.ends_with(affix.bytes()) : window.bytes.starts_with(affix.bytes());
  };
  require_defined(bound.at(0));
  if (!bound.at(0).is_tuple()) return Value::boolean(matches(bound.at(0)));
  const auto& affixes = bound.at(0).list().items;
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}

template <bool last, bool must_exist>
Value find_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound(last ? "rfind" : "find", args, {"sub", "start", "end"}, 1);
  const std::string_view needle = bound.string(0).bytes();
  const Window window = window_of(in, self, bound);
  std::size_t found = std::string_view::npos;
  if (!window.outside) found = last ? find_last(window.bytes, needle) : find_first(window.bytes, needle, 0);
  if (found == std::string_view::npos) {
    if (must_exist) raise("substring not found");
    return Value::integer(-1);
  }
  return Value::integer(static_cast<Int>(window.first_char + count_chars(window.bytes.substr(0, found))));
}

Value count_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("count", args, {"sub", "start", "end"}, 1);
  const std::string_view needle = bound.string(0).bytes();
  const Window window = window_of(in, self, bound);
  if (window.outside) return Value::integer(0);
  if (needle.empty()) return Value::integer(static_cast<Int>(count_chars(window.bytes)) + 1);
  Int count = 0;
  for (std::size_t at = 0; (at = find_first(window.bytes, needle, at)) != std::string_view::npos; at += needle.size())
    ++count;
  return Value::integer(count);
}

template <bool (*Holds)(char32_t)>
Value all_chars(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("str method", args, {});
  const std::string_view bytes = self.bytes();
  in.budget().scan(bytes.size() * 4);
  for (std::size_t at = 0; at < bytes.size(); at += char_size(static_cast<unsigned char>(bytes[at])))
    if (!Holds(decode_char(bytes, at))) return Value::boolean(false);
  return Value::boolean(!bytes.empty());
}

bool is_alnum(char32_t c) {
  return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}

template <bool upper_case>
Value is_case(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("str method", args, {});
  in.budget().scan(self.bytes().size() * 4);
  return Value::boolean(has_only_case(self.bytes(), upper_case));
}

Value is_ascii_method(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("isascii", args, {});
  return Value::boolean(self.text().is_ascii());
}

Value is_printable_method(Interpreter& in, const Value& self, const Args& args) {
  if (self.bytes().empty()) return Value::boolean(true);
  return all_chars<is_printable>(in, self, args);
}

Value is_identifier(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("isidentifier", args, {});
  const std::string_view bytes = self.bytes();
  for (std::size_t at = 0; at < bytes.size(); at += char_size(static_cast<unsigned char>(bytes[at]))) {
    const char32_t c = decode_char(bytes, at);
    if (at == 0 ? !is_identifier_start(c) : !is_identifier_part(c)) return Value::boolean(false);
  }
  return Value::boolean(!bytes.empty());
}

Value is_title_method(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("istitle", args, {});
  const std::string_view bytes = self.bytes();
  bool cased = false, inside_word = false;
  for (std::size_t at = 0; at < bytes.size(); at += char_size(static_cast<unsigned char>(bytes[at]))) {
    const char32_t c = decode_char(bytes, at);
    const bool starts = is_upper(c) || is_title(c);
    if (starts ? inside_word : is_lower(c) && !inside_word) return Value::boolean(false);
    inside_word = starts || is_lower(c);
    cased = cased || inside_word;
  }
  return Value::boolean(cased);
}

enum class Align { kLeft, kRight, kCenter };

template <Align align>
Value padded(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("ljust", args, {"width", "fillchar"}, 1);
  const std::int64_t width = require_index(bound.at(0));
  const Value fill = bound.has(1) ? bound.string(1) : Value::string(" ");
  if (fill.text().chars() != 1) raise("The fill character must be exactly one character long");
  const auto length = static_cast<std::int64_t>(self.text().chars());
  if (width <= length) return self;
  const std::int64_t pad = width - length;
  const std::int64_t left = align == Align::kLeft ? 0 : align == Align::kRight ? pad : pad / 2 + (pad & width & 1);
  TextBuilder out;
  append_padding(out, fill.text(), static_cast<std::size_t>(left), in.budget());
  out.append(self.text());
  append_padding(out, fill.text(), static_cast<std::size_t>(pad - left), in.budget());
  in.budget().text(out.size());
  return like(self, out.take());
}

Value zfill(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("zfill", args, {"width"}, 1);
  const Text& text = self.text();
  const std::int64_t missing = require_index(bound.at(0)) - static_cast<std::int64_t>(text.chars());
  if (missing <= 0) return self;
  const bool sign = text.size() > 0 && (text.bytes()[0] == '+' || text.bytes()[0] == '-');
  TextBuilder out;
  out.append(text, 0, sign ? 1 : 0);
  append_padding(out, Text("0", false), static_cast<std::size_t>(missing), in.budget());
  out.append(text, sign ? 1 : 0, text.size());
  in.budget().text(out.size());
  return like(self, out.take());
}

template <bool at_end>
Value remove_affix(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("removeprefix", args, {"prefix"}, 1);
  const std::string_view affix = bound.string(0).bytes(), bytes = self.bytes();
  if (affix.empty() || (at_end ? !bytes.ends_with(affix) : !bytes.starts_with(affix))) return self;
  in.budget().text(bytes.size());
  return like(self, at_end ? slice(self.text(), 0, bytes.size() - affix.size())
                           : slice(self.text(), affix.size(), bytes.size()));
}

Value expand_tabs_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("expandtabs", args, {"tabsize"});
  return like(self, expand_tabs(self.text(), bound.has(0) ? require_index(bound.at(0)) : 8, in.budget()));
}

Value format_map(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("format_map", args, {"mapping"}, 1);
  if (!bound.at(0).is_dict()) raise("format_map() argument must be a mapping, not {}", type_name(bound.at(0)));
  Args named;
  for (const auto& [key, value] : bound.at(0).dict().entries)
    if (key.is_string()) named.named.emplace_back(key.bytes(), value);
  return format_braces(in, self, named);
}

Value unsupported(Interpreter&, const Value&, const Args&) {
  raise("this method of str is not supported in chat templates");
}

using Method = Value (*)(Interpreter&, const Value&, const Args&);

constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"split", split_method<false>},
    {"strip", stripped<Side::kBoth>},
    {"lstrip", stripped<Side::kLeft>},
    {"rstrip", stripped<Side::kRight>},
    {"startswith", has_affix<false>},
    {"endswith", has_affix<true>},
    {"replace", replace_method},
    {"upper", changed<upper>},
    {"lower", changed<lower>},
    {"join", join_method},
    {"format", format_braces},
    {"title", changed<title>},
    {"capitalize", changed<capitalize>},
    {"swapcase", changed<swap_case>},
    {"casefold", changed<lower>},
    {"rsplit", split_method<true>},
    {"splitlines", split_lines_method},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"find", find_method<false, false>},
    {"rfind", find_method<true, false>},
    {"index", find_method<false, true>},
    {"rindex", find_method<true, true>},
    {"count", count_method},
    {"isalpha", all_chars<is_alpha>},
    {"isdigit", all_chars<is_digit>},
    {"isdecimal", all_chars<is_decimal>},
    {"isnumeric", all_chars<is_numeric>},
    {"isalnum", all_chars<is_alnum>},
    {"isspace", all_chars<is_space>},
    {"isupper", is_case<true>},
    {"islower", is_case<false>},
    {"istitle", is_title_method},
    {"isascii", is_ascii_method},
    {"isprintable", is_printable_method},
    {"isidentifier", is_identifier},
    {"ljust", padded<Align::kLeft>},
    {"rjust", padded<Align::kRight>},
    {"center", padded<Align::kCenter>},
    {"zfill", zfill},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"expandtabs", expand_tabs_method},
    {"format_map", format_map},
    {"encode", unsupported},
    {"translate", unsupported},
    {"maketrans", unsupported},
};

}  // namespace

Value find_string_method(const Value& object, std::string_view name) {
  for (const auto& [known, call] : kMethods) {
    if (known != name) continue;
    auto method = std::make_shared<MethodObject>();
    method->self = object;
    method->name = known;
    method->call = call;
    method->depth = 1;
    return Value::object(Kind::kMethod, std::move(method));
  }
  return {};
}

}  // namespace weir::text::jinja
