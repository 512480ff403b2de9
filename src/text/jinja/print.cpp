// str() and repr() of values, as Python prints them.

#include <charconv>
#include <cmath>

#include "text/jinja/loop.h"
#include "text/jinja/unicode.h"
#include "text/jinja/value.h"

namespace weir::text::jinja {

namespace {

void append_escape(std::string& out, char32_t c) {
  const auto code = static_cast<std::uint32_t>(c);
  if (code < 0x100) {
    out += fmt::format("\\x{:02x}", code);
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += fmt::format("\\U{:08x}", code);
  }
}

class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}

  void print(const Value& value) {
    budget_.step();
    if (out_.size() > kMaxTextBytes) budget_.text(out_.size());
    switch (value.kind()) {
      case Kind::kMissing:
      case Kind::kUndefined:
        out_ += "Undefined";
        return;
      case Kind::kNone:
        out_ += "None";
        return;
      case Kind::kBool:
        out_ += value.as_bool() ? "True" : "False";
        return;
      case Kind::kInt:
        out_ += int_to_string(value.as_int());
        return;
      case Kind::kFloat:
        out_ += repr_of_real(value.as_real());
        return;
      case Kind::kString:
        budget_.scan(value.bytes().size());
        out_ += value.is_safe() ? "Markup(" + repr_of_string(value.bytes()) + ")" : repr_of_string(value.bytes());
        return;
      default:
        print_object(value);
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void print_object(const Value& value) {
    // Namespaces can contain each other, so the depth of values does not bound this recursion.
    if (++depth_ > kMaxValueDepth) raise("a value nested more than {} levels deep cannot be printed", kMaxValueDepth);
    switch (value.kind()) {
      case Kind::kList:
        print_items(value.list().items, "[", "]");
        break;
      case Kind::kTuple:
        print_items(value.list().items, "(", value.list().items.size() == 1 ? ",)" : ")");
        break;
      case Kind::kDict:
        print_dict(value.dict());
        break;
      case Kind::kView:
        print_view(value.view());
        break;
      case Kind::kRange: {
        const RangeObject& range = value.range();
        out_ += fmt::format("range({}, {}", int_to_string(range.start), int_to_string(range.stop));
        if (range.step != 1) out_ += ", " + int_to_string(range.step);
        out_ += ')';
        break;
      }
      case Kind::kNamespace:
        out_ += "<Namespace ";
        print_dict(*value.name_space().attributes);
        out_ += '>';
        break;
      case Kind::kMacro:
        out_ += fmt::format("<Macro {}>", macro_label(value));
        break;
      case Kind::kMethod:
        out_ += fmt::format("<built-in method {} of {} object>", value.method().name, type_name(value.method().self));
        break;
      case Kind::kFunction:
        out_ += fmt::format("<function {}>", value.function().name);
        break;
      case Kind::kLoop:
        out_ += "<LoopContext>";
        break;
      default:
        out_ += fmt::format("<{} object>", type_name(value));
    }
    --depth_;
  }

  void print_items(const std::vector<Value>& items, std::string_view open, std::string_view close) {
    out_ += open;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out_ += ", ";
      print(items[i]);
    }
    out_ += close;
  }

  void print_dict(const DictObject& dict) {
    out_ += '{';
    for (std::size_t i = 0; i < dict.entries.size(); ++i) {
      if (i != 0) out_ += ", ";
      print(dict.entries[i].first);
      out_ += ": ";
      print(dict.entries[i].second);
    }
    out_ += '}';
  }

  void print_view(const ViewObject& view) {
    using What = ViewObject::What;
    out_ += view.what == What::kKeys ? "dict_keys([" : view.what == What::kValues ? "dict_values([" : "dict_items([";
    for (std::size_t i = 0; i < view.dict->entries.size(); ++i) {
      const auto& [key, value] = view.dict->entries[i];
      if (i != 0) out_ += ", ";
      if (view.what == What::kItems) out_ += '(';
      if (view.what != What::kValues) print(key);
      if (view.what == What::kItems) out_ += ", ";
      if (view.what != What::kKeys) print(value);
      if (view.what == What::kItems) out_ += ')';
    }
    out_ += "])";
  }

  Budget& budget_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string int_to_string(Int value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  auto rest = negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string digits;
  for (; rest != 0; rest /= 10) digits += static_cast<char>('0' + static_cast<int>(rest % 10));
  if (negative) digits += '-';
  return {digits.rbegin(), digits.rend()};
}

// The shortest digits that read back as the same double, laid out as CPython does: an exponent below 1e-4 and from
// 1e16.
std::string repr_of_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view all(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = all.find('e');
  std::string digits;
  std::string out;
  for (const char c : all.substr(0, e)) {
    if (c == '-') {
      out = "-";
    } else if (c != '.') {
      digits += c;
    }
  }
  int exponent = 0;
  const std::size_t exponent_at = e + (all[e + 1] == '+' ? 2 : 1);
  std::from_chars(all.data() + exponent_at, all.data() + all.size(), exponent);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += '.' + digits.substr(1);
    return out + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  const auto point = static_cast<std::size_t>(exponent + 1);
  return out + digits.substr(0, point) + '.' + digits.substr(point);
}

std::string repr_of_string(std::string_view bytes) {
  const bool single = bytes.find('\'') == std::string_view::npos || bytes.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (std::size_t at = 0; at < bytes.size(); at += char_size(static_cast<unsigned char>(bytes[at]))) {
    const char32_t c = decode_char(bytes, at);
    if (c == static_cast<char32_t>(quote) || c == U'\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == U'\n') {
      out += "\\n";
    } else if (c == U'\r') {
      out += "\\r";
    } else if (c == U'\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      append_char(out, c);
    } else {
      append_escape(out, c);
    }
  }
  return out + quote;
}

std::string to_repr(const Value& value, Budget& budget) {
  Printer printer(budget);
  printer.print(value);
  std::string out = printer.take();
  budget.text(out.size());
  return out;
}

Text to_text(const Value& value, Budget& budget) {
  if (value.is_string()) return value.text();
  if (value.is_undefined() || value.is_missing()) return {};
  std::string out = to_repr(value, budget);
  return Text(std::move(out), has_user_data(value));
}

}  // namespace weir::text::jinja
