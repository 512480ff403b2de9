#include "text/parse/literals.h"

#include <algorithm>
#include <cstdint>

#include "text/parse/json_scanner.h"
#include "text/parse/source.h"

namespace weir::text::parse {
namespace {

constexpr int kMaxDepth = 100;
// Schemas may refer to alternatives of alternatives.
constexpr int kMaxSchemaDepth = 16;

void append_utf8(std::string& out, std::uint32_t code) {
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out.push_back(static_cast<char>((0xFF00 >> (more + 1) & 0xFF) | code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) out.push_back(static_cast<char>(0x80 | (code >> (6 * i) & 0x3F)));
}

void add_type(std::string_view name, ValueTypes& out) {
  bool* const flag = name == "string"    ? &out.string
                     : name == "integer" ? &out.integer
                     : name == "number"  ? &out.number
                     : name == "boolean" ? &out.boolean
                     : name == "null"    ? &out.null
                     : name == "object"  ? &out.object
                     : name == "array"   ? &out.array
                                         : nullptr;
  if (!flag) return;
  *flag = out.known = true;
}

void add_types(const Json& schema, int depth, ValueTypes& out) {
  if (!schema.is_object() || depth > kMaxSchemaDepth) return;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) add_type(type->get_ref<const std::string&>(), out);
    for (const Json& name : type->is_array() ? *type : Json::array())
      if (name.is_string()) add_type(name.get_ref<const std::string&>(), out);
    return;
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const auto list = schema.find(key);
    if (list == schema.end() || !list->is_array()) continue;
    for (const Json& one : *list) add_types(one, depth + 1, out);
  }
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    for (const Json& value : *values) add_type(value.is_number() ? "number" : value.type_name(), out);
  }
}

// Reads a Python literal and writes JSON.
class PythonLiteral {
 public:
  explicit PythonLiteral(std::string_view text) : text_(text) {}

  std::optional<std::string> run() {
    if (!value(0)) return std::nullopt;
    space();
    if (at_ != text_.size()) return std::nullopt;
    return std::move(out_);
  }

 private:
  bool more() const { return at_ < text_.size(); }
  void space() {
    while (more() && is_space(text_[at_])) ++at_;
  }
  bool take(char c) {
    space();
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool value(int depth) {
    space();
    if (!more() || depth > kMaxDepth) return false;
    const char c = text_[at_];
    if (c == '\'' || c == '"') return string();
    if (c == '[' || c == '(') return list(c == '[' ? ']' : ')', depth);
    if (c == '{') return dict(depth);
    return word();
  }

  bool list(char close, int depth) {
    ++at_;
    out_ += '[';
    for (bool first = true; !take(close); first = false) {
      if (!first) {
        if (!take(',')) return false;
        if (take(close)) break;
        out_ += ", ";
      }
      if (!value(depth + 1)) return false;
    }
    out_ += ']';
    return true;
  }

  bool dict(int depth) {
    ++at_;
    out_ += '{';
    for (bool first = true; !take('}'); first = false) {
      if (!first) {
        if (!take(',')) return false;
        if (take('}')) break;
        out_ += ", ";
      }
      space();
      if (!more() || (text_[at_] != '\'' && text_[at_] != '"') || !string()) return false;
      if (!take(':')) return false;
      out_ += ": ";
      if (!value(depth + 1)) return false;
    }
    out_ += '}';
    return true;
  }

  bool string() {
    const char quote = text_[at_];
    const std::string_view triple = text_.substr(at_, 3);
    const bool long_quotes = triple.size() == 3 && triple[1] == quote && triple[2] == quote;
    at_ += long_quotes ? 3 : 1;
    std::string content;
    while (true) {
      if (!more()) return false;
      if (long_quotes ? text_.substr(at_).starts_with(triple) : text_[at_] == quote) break;
      if (text_[at_] != '\\') {
        content += text_[at_++];
      } else if (!escape(content)) {
        return false;
      }
    }
    at_ += long_quotes ? 3 : 1;
    out_ += json_string(content);
    return true;
  }

  bool hex(int digits, std::uint32_t& code) {
    code = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      if (!more()) return false;
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return false;
      code = code << 4 | static_cast<std::uint32_t>(digit);
    }
    return true;
  }

  bool escape(std::string& content) {
    ++at_;
    if (!more()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kNames = "ntrbfav0\\'\"/", kBytes("\n\t\r\b\f\a\v\0\\'\"/", 12);
    if (const auto i = kNames.find(c); i != std::string_view::npos) {
      content += kBytes[i];
      return true;
    }
    if (c == '\n') return true;
    if (c != 'x' && c != 'u' && c != 'U') {
      // Python keeps the backslash of an escape it does not know.
      content += '\\';
      content += c;
      return true;
    }
    std::uint32_t code = 0;
    if (!hex(c == 'x' ? 2 : c == 'u' ? 4 : 8, code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      const std::size_t before = at_;
      std::uint32_t low = 0;
      at_ += 2;
      if (hex(4, low) && low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else {
        at_ = before;
      }
    }
    append_utf8(content, code);
    return true;
  }

  bool word() {
    const std::size_t begin = at_;
    while (more() && !is_space(text_[at_]) &&
           std::string_view(",:()[]{}'\"").find(text_[at_]) == std::string_view::npos)
      ++at_;
    std::string text(text_.substr(begin, at_ - begin));
    if (text == "True" || text == "true") {
      out_ += "true";
    } else if (text == "False" || text == "false") {
      out_ += "false";
    } else if (text == "None" || text == "null") {
      out_ += "null";
    } else {
      // Numbers: Python also knows 1_000, .5, 5. and +1.
      std::erase(text, '_');
      if (text.starts_with('+')) text.erase(0, 1);
      if (const auto point = text.find('.'); point != std::string::npos) {
        const auto digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
        if (!digit(point + 1)) text.insert(point + 1, "0");
        if (point == 0 || !digit(point - 1)) text.insert(point, "0");
      }
      if (!is_json(text) || !(text[0] == '-' || (text[0] >= '0' && text[0] <= '9'))) return false;
      out_ += text;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + ('a' - 'A') : a) == b; });
}

// Whether a JSON text is of one of the types.
bool fits(std::string_view json, const ValueTypes& types) {
  if (!types.known) return json.front() != '"';
  switch (json.front()) {
    case '{':
      return types.object;
    case '[':
      return types.array;
    case '"':
      return false;  // a bare value's quotes are its own
    case 't':
    case 'f':
      return types.boolean;
    case 'n':
      return types.null;
    default:
      return types.number || (types.integer && json.find('.') == std::string_view::npos) ||
             (types.integer && !types.string);
  }
}

}  // namespace

const Json* ToolSchemas::find(std::string_view function) const {
  if (!tools_.is_array()) return nullptr;
  for (const Json& tool : tools_) {
    const auto it = tool.is_object() ? tool.find("function") : tool.end();
    if (!tool.is_object() || it == tool.end() || !it->is_object()) continue;
    if (it->value("name", Json()) == std::string(function)) return &*it;
  }
  return nullptr;
}

const Json* ToolSchemas::parameters_of(std::string_view function) const {
  const Json* found = find(function);
  return found && found->contains("parameters") ? &(*found)["parameters"] : nullptr;
}

ValueTypes ToolSchemas::types_of(std::string_view function, std::string_view parameter) const {
  return types_of_schema(member_of_schema(parameters_of(function), parameter));
}

ValueTypes types_of_schema(const Json* schema) {
  ValueTypes out;
  if (schema) add_types(*schema, 0, out);
  return out;
}

namespace {

// The first of a schema and its alternatives that has `key`, as that key's value.
const Json* find_in_schema(const Json* schema, const char* key, int depth) {
  if (!schema || !schema->is_object() || depth > kMaxSchemaDepth) return nullptr;
  if (const auto it = schema->find(key); it != schema->end()) return &*it;
  for (const char* alternatives : {"anyOf", "oneOf", "allOf"}) {
    const auto list = schema->find(alternatives);
    if (list == schema->end() || !list->is_array()) continue;
    for (const Json& one : *list) {
      if (const Json* found = find_in_schema(&one, key, depth + 1)) return found;
    }
  }
  return nullptr;
}

}  // namespace

const Json* member_of_schema(const Json* schema, std::string_view name) {
  const Json* members = find_in_schema(schema, "properties", 0);
  if (members && members->is_object()) {
    if (const auto it = members->find(std::string(name)); it != members->end()) return &*it;
  }
  const Json* others = find_in_schema(schema, "additionalProperties", 0);
  return others && others->is_object() ? others : nullptr;
}

const Json* element_of_schema(const Json* schema) {
  return find_in_schema(schema, "items", 0);
}

void append_json_escaped(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (byte >= 0x20) {
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c == '\r') {
    out += "\\r";
  } else {
    constexpr std::string_view kHex = "0123456789abcdef";
    out += "\\u00";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) append_json_escaped(out, c);
  out += '"';
  return out;
}

std::optional<std::string> decode_json_string(std::string_view json) {
  const Json value = Json::parse(json.begin(), json.end(), nullptr, false);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

bool is_json(std::string_view text) {
  JsonScanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto step = scanner.push(text[i]);
    if (step == JsonScanner::Step::kEnd) return trim(text.substr(i + 1)).empty();
    if (step == JsonScanner::Step::kEndBefore) return trim(text.substr(i)).empty();
    if (step == JsonScanner::Step::kBad || (scanner.in_string() && static_cast<unsigned char>(text[i]) < 0x20))
      return false;
  }
  return scanner.complete();
}

std::optional<std::string> python_to_json(std::string_view text) {
  return PythonLiteral(text).run();
}

std::string bare_value_to_json(std::string_view text, const ValueTypes& types) {
  const std::string_view inner = trim(text);
  if (types.only_string() || inner.empty()) return json_string(text);
  if (types.null && (equals_ignoring_case(inner, "null") || equals_ignoring_case(inner, "none"))) return "null";
  if (types.boolean && equals_ignoring_case(inner, "true")) return "true";
  if (types.boolean && equals_ignoring_case(inner, "false")) return "false";
  if (is_json(inner) && fits(inner, types)) return std::string(inner);
  const auto python = python_to_json(inner);
  if (python && fits(*python, types)) return *python;
  return json_string(text);
}

}  // namespace weir::text::parse
