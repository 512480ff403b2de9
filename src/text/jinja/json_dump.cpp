// json.dumps, as transformers' tojson calls it.

#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/merge_sort.h"
#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

class JsonWriter {
 public:
  JsonWriter(Interpreter& in, const JsonOptions& options) : in_(in), options_(options) {}

  void write(const Value& value) {
    in_.budget().step();
    in_.budget().limit(out_.size());
    switch (value.kind()) {
      case Kind::kString:
        return string(value.bytes());
      case Kind::kDict:
        return dict(value.dict());
      case Kind::kList:
      case Kind::kTuple:
        return list(value.list().items);
      default:
        out_ += scalar(value);
    }
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return value.as_bool() ? "true" : "false";
      case Kind::kInt:
        return int_to_string(value.as_int());
      case Kind::kFloat: {
        const double real = value.as_real();
        if (std::isnan(real)) return "NaN";
        if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
        return repr_of_real(real);
      }
      default:
        raise("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  void escape(std::uint32_t unit) { out_ += fmt::format("\\u{:04x}", unit); }

  void string(std::string_view bytes) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    in_.budget().scan(bytes.size() * 2);
    out_ += '"';
    for (std::size_t at = 0; at < bytes.size();) {
      const auto byte = static_cast<unsigned char>(bytes[at]);
      const std::size_t size = char_size(byte);
      if (const std::size_t known = kEscaped.find(bytes[at]); known != std::string_view::npos) {
        out_ += '\\';
        out_ += kLetters[known];
      } else if (byte < 0x20) {
        escape(byte);
      } else if (byte < 0x7F || !options_.ensure_ascii) {
        out_.append(bytes, at, size);
      } else {
        const auto c = static_cast<std::uint32_t>(decode_char(bytes, at));
        if (c < 0x10000) {
          escape(c);
        } else {
          escape(0xD800 + ((c - 0x10000) >> 10));
          escape(0xDC00 + ((c - 0x10000) & 0x3FF));
        }
      }
      at += size;
    }
    out_ += '"';
  }

  void new_line(int level) {
    if (!options_.indent) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) {
      out_ += *options_.indent;
      in_.budget().limit(out_.size());
    }
  }

  void list(const std::vector<Value>& items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out_ += options_.item_separator;
      new_line(level_);
      write(items[i]);
    }
    new_line(--level_);
    out_ += ']';
  }

  void key(const Value& key) {
    if (key.is_string()) return string(key.bytes());
    if (!key.is_number() && !key.is_none()) raise("keys must be str, int, float, bool or None, not {}", type_name(key));
    string(scalar(key));
  }

  void dict(const DictObject& dict) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (options_.sort_keys)
      merge_sort(entries, [&](const auto* a, const auto* b) { return less(a->first, b->first, in_.budget()); });
    out_ += '{';
    ++level_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) out_ += options_.item_separator;
      new_line(level_);
      key(entries[i]->first);
      out_ += options_.key_separator;
      write(entries[i]->second);
    }
    new_line(--level_);
    out_ += '}';
  }

  Interpreter& in_;
  const JsonOptions& options_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

Value to_json(Interpreter& in, const Value& value, const JsonOptions& options) {
  JsonWriter writer(in, options);
  writer.write(value);
  std::string out = writer.take();
  in.budget().text(out.size());
  return Value::string(std::move(out), has_user_data(value));
}

}  // namespace weir::text::jinja
