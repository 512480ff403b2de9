// The filters, tests, global functions and methods that templates can use.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "text/jinja/interpreter.h"
#include "text/jinja/value.h"

namespace weir::text::jinja {

struct Filter {
  std::string_view name;
  Value (*call)(Interpreter& in, const Value& value, const Args& args);
};

struct Test {
  std::string_view name;
  bool (*call)(Interpreter& in, const Value& value, const Args& args);
};

const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
// Missing if there is no such global.
Value find_global(std::string_view name);

// The attribute of a value that Python's type has: a method or a number. Missing if it has none of this name; an
// undefined value if the sandbox hides it.
Value find_attribute(Interpreter& in, const Value& object, std::string_view name);
// The same for the methods of strings.
Value find_string_method(const Value& object, std::string_view name);

// Arguments by position or name, as a Python function with these parameters takes them.
class Bound {
 public:
  Bound(std::string_view function, const Args& args, std::initializer_list<std::string_view> parameters,
        std::size_t required = 0);

  bool has(std::size_t i) const { return values_[i] != nullptr; }
  const Value& at(std::size_t i) const { return *values_[i]; }
  // Not given, or given as none.
  bool is_none(std::size_t i) const { return !has(i) || at(i).is_none(); }
  Int integer(std::size_t i, Int fallback) const;
  bool flag(std::size_t i, bool fallback) const { return has(i) ? truth(at(i)) : fallback; }
  // Raises unless it is a string.
  const Value& string(std::size_t i) const;

 private:
  static constexpr std::size_t kMaxParameters = 6;
  std::string_view function_;
  std::string_view parameters_[kMaxParameters];  // copied: the list in a constructor's call ends with that call
  const Value* values_[kMaxParameters] = {};
};

// Raises unless the value is an integer that fits.
std::int64_t require_index(const Value& value);

// value % args and value.format(args).
Value format_percent(Interpreter& in, const Value& format, const Value& args);
Value format_braces(Interpreter& in, const Value& format, const Args& args);

// json.dumps as transformers' tojson calls it.
struct JsonOptions {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ", key_separator = ": ";
};
Value to_json(Interpreter& in, const Value& value, const JsonOptions& options);

// A generator; `source` is what it reads from.
Value make_iterator(std::shared_ptr<IteratorObject> iterator, const Value& source);

}  // namespace weir::text::jinja
