// Value: what a template computes with. It follows Python's types, because templates print, compare, slice and test
// them.
//
// A Value is small and copied freely; texts and containers are shared. Lists, tuples and dicts never change once made
// (the sandbox refuses the methods that would), namespaces, loops, iterators and cyclers do. Values of one rendering
// stay on its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/text.h"

namespace weir::text::jinja {

class Interpreter;

// Wider than Python needs for 64-bit integers, so that sums and products of them are exact; beyond it is an error.
using Int = __int128;

enum class Kind : std::uint8_t {
  kMissing,  // no value at all: a variable that was never set, an argument that was not given
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kView,  // dict.keys(), .values(), .items()
  kRange,
  kIterator,  // generators and reversed lists: can be walked once
  kNamespace,
  kMacro,
  kFunction,
  kMethod,
  kLoop,
  kCycler,
  kJoiner,
};

struct Object {
  virtual ~Object() = default;
  // 1 + the depth of the deepest value inside, at most kMaxValueDepth: what printing, comparing and freeing recurse.
  // Namespaces, loops and macros count as 0: the interpreter takes them apart one by one.
  int depth = 0;
};

struct StringObject;
struct UndefinedObject;
struct ListObject;
struct DictObject;
struct ViewObject;
struct RangeObject;
struct IteratorObject;
struct NamespaceObject;
struct FunctionObject;
struct MethodObject;
struct CyclerObject;
struct JoinerObject;

class Value {
 public:
  Value() = default;
  static Value none(bool user = false) { return Value(Kind::kNone, user); }
  static Value boolean(bool b, bool user = false);
  static Value integer(Int i, bool user = false);
  static Value real(double f, bool user = false);
  static Value string(std::string bytes, bool user = false);
  static Value string(Text text);
  static Value undefined(std::string message, bool unsafe = false);
  static Value object(Kind kind, std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return kind_ == Kind::kMissing; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_tuple() const { return kind_ == Kind::kTuple; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  // bool counts as a number, as in Python.
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }

  // Scalars only: the value was, or was computed from, the caller's data. Texts know it for each byte.
  bool user() const { return user_; }

  bool as_bool() const { return bool_; }
  Int as_int() const { return kind_ == Kind::kBool ? Int{bool_} : int_; }
  double as_real() const { return kind_ == Kind::kFloat ? real_ : static_cast<double>(as_int()); }
  const Text& text() const;
  std::string_view bytes() const { return text().bytes(); }
  // Python's Markup: + escapes what is added to it.
  bool is_safe() const { return safe_; }
  Value with_safe(bool safe) const {
    Value copy = *this;
    copy.safe_ = safe;
    return copy;
  }

  const UndefinedObject& undefined() const;
  const ListObject& list() const;  // lists and tuples
  DictObject& dict() const;
  ViewObject& view() const;
  RangeObject& range() const;
  IteratorObject& iterator() const;
  NamespaceObject& name_space() const;
  const MethodObject& method() const;
  const FunctionObject& function() const;
  CyclerObject& cycler() const;
  JoinerObject& joiner() const;
  const std::shared_ptr<Object>& object() const { return object_; }

 private:
  explicit Value(Kind kind, bool user) : kind_(kind), user_(user) {}

  Kind kind_ = Kind::kMissing;
  bool user_ = false, safe_ = false;
  union {
    bool bool_;
    Int int_ = 0;
    double real_;
  };
  std::shared_ptr<Object> object_;
};

struct StringObject : Object {
  explicit StringObject(Text t) : text(std::move(t)) {}
  Text text;
};

struct UndefinedObject : Object {
  std::string message;  // said when the value is used
  bool unsafe = false;  // the sandbox hides what is there
};

struct ListObject : Object {
  std::vector<Value> items;
  bool is_group = false;  // a tuple (grouper, list) of the filter groupby, which has attributes of these names
};

struct DictObject : Object {
  DictObject() { depth = 1; }

  std::vector<std::pair<Value, Value>> entries;  // in the order of insertion

  const Value* find(const Value& key);
  const Value* find(std::string_view key);
  void set(Value key, Value value);  // raises when the key cannot be hashed

 private:
  static constexpr std::size_t kLinear = 8;  // up to here comparing keys is faster than hashing them
  std::size_t position(const Value& key);
  std::size_t position(std::string_view key);
  void index_all();

  // Filled once there are more than kLinear entries. The views point into the keys.
  std::unordered_map<std::string_view, std::size_t> strings_;
  std::unordered_map<std::string, std::size_t> others_;
  std::size_t indexed_ = 0;
};

struct ViewObject : Object {
  enum class What { kKeys, kValues, kItems };
  std::shared_ptr<DictObject> dict;
  What what = What::kKeys;
};

struct RangeObject : Object {
  Int start = 0, stop = 0, step = 1;
  std::int64_t length = 0;
};

struct IteratorObject : Object {
  std::string_view type_name = "generator";
  virtual bool next(Interpreter& in, Value& out) = 0;  // false: at its end, for good
};

struct NamespaceObject : Object {
  std::shared_ptr<DictObject> attributes = std::make_shared<DictObject>();
};

// What filters, tests, methods and functions are called with.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct FunctionObject : Object {
  std::string_view name;
  Value (*call)(Interpreter& in, const Args& args) = nullptr;
};

struct MethodObject : Object {
  Value self;
  std::string_view name;
  Value (*call)(Interpreter& in, const Value& self, const Args& args) = nullptr;
};

struct CyclerObject : Object {
  std::vector<Value> items;
  std::size_t position = 0;
};

struct JoinerObject : Object {
  Value separator;
  bool used = false;
};

Value make_list(std::vector<Value> items, Budget& budget);
Value make_tuple(std::vector<Value> items, Budget& budget);
Value make_dict(std::shared_ptr<DictObject> dict);
// Adds an entry to a dict that is being built and is not visible to the template yet.
void add_entry(DictObject& dict, Value key, Value value, Budget& budget);

inline int depth_of(const Value& value) {
  return value.object() ? value.object()->depth : 0;
}
// The depth of something that holds a value of depth `inside`; raises when that is too deep.
int depth_around(int inside);

std::string_view type_name(const Value& value);

// Number of items where Python's len() has one.
std::optional<std::size_t> length_of(const Value& value);

bool truth(const Value& value);
bool equals(const Value& a, const Value& b, Budget& budget);
bool same_object(const Value& a, const Value& b);  // Python's `is`
// a < b and so on as Python orders them; raises for types it does not. `sign` is for the message.
bool less(const Value& a, const Value& b, Budget& budget, std::string_view sign = "<");
bool less_or_equal(const Value& a, const Value& b, Budget& budget, std::string_view sign = "<=");
bool greater(const Value& a, const Value& b, Budget& budget, std::string_view sign = ">");
bool greater_or_equal(const Value& a, const Value& b, Budget& budget, std::string_view sign = ">=");

// Raises what using an undefined value raises.
[[noreturn]] void raise_undefined(const Value& value);
inline void require_defined(const Value& value) {
  if (value.is_undefined()) [[unlikely]]
    raise_undefined(value);
}

// Part of the value came from the caller's data.
bool has_user_data(const Value& value);

// str() and repr(). `budget` pays for the text.
Text to_text(const Value& value, Budget& budget);
std::string to_repr(const Value& value, Budget& budget);
std::string repr_of_string(std::string_view bytes);
std::string repr_of_real(double value);
std::string int_to_string(Int value);

}  // namespace weir::text::jinja
