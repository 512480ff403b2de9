#include "text/jinja/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "text/jinja/loop.h"

namespace weir::text::jinja {

Value Value::boolean(bool b, bool user) {
  Value value(Kind::kBool, user);
  value.bool_ = b;
  return value;
}

Value Value::integer(Int i, bool user) {
  Value value(Kind::kInt, user);
  value.int_ = i;
  return value;
}

Value Value::real(double f, bool user) {
  Value value(Kind::kFloat, user);
  value.real_ = f;
  return value;
}

Value Value::string(std::string bytes, bool user) {
  return string(Text(std::move(bytes), user));
}
Value Value::string(Text text) {
  return object(Kind::kString, std::make_shared<StringObject>(std::move(text)));
}

Value Value::undefined(std::string message, bool unsafe) {
  auto object = std::make_shared<UndefinedObject>();
  object->message = std::move(message);
  object->unsafe = unsafe;
  return Value::object(Kind::kUndefined, std::move(object));
}

Value Value::object(Kind kind, std::shared_ptr<Object> object) {
  Value value(kind, false);
  value.object_ = std::move(object);
  return value;
}

const Text& Value::text() const {
  return static_cast<const StringObject&>(*object_).text;
}
const UndefinedObject& Value::undefined() const {
  return static_cast<const UndefinedObject&>(*object_);
}
const ListObject& Value::list() const {
  return static_cast<const ListObject&>(*object_);
}
DictObject& Value::dict() const {
  return static_cast<DictObject&>(*object_);
}
ViewObject& Value::view() const {
  return static_cast<ViewObject&>(*object_);
}
RangeObject& Value::range() const {
  return static_cast<RangeObject&>(*object_);
}
IteratorObject& Value::iterator() const {
  return static_cast<IteratorObject&>(*object_);
}
NamespaceObject& Value::name_space() const {
  return static_cast<NamespaceObject&>(*object_);
}
const MethodObject& Value::method() const {
  return static_cast<const MethodObject&>(*object_);
}
const FunctionObject& Value::function() const {
  return static_cast<const FunctionObject&>(*object_);
}
CyclerObject& Value::cycler() const {
  return static_cast<CyclerObject&>(*object_);
}
JoinerObject& Value::joiner() const {
  return static_cast<JoinerObject&>(*object_);
}

namespace {

// Exact comparison of an integer with a float: a double cannot hold every integer.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  const double x = a.as_real(), y = b.as_real();
  if (x != y || !a.is_number() || a.kind() == b.kind()) return x < y ? -1 : x > y;
  const Value& integral = a.is_integral() ? a : b;
  constexpr double kExact = 0x1p120;  // beyond it the conversion back would overflow; such integers do not occur
  if (std::abs(x) > kExact) return 0;
  const Int other = static_cast<Int>(x);
  const int order = integral.as_int() < other ? -1 : integral.as_int() > other;
  return &integral == &a ? order : -order;
}

bool is_nan(const Value& value) {
  return value.is(Kind::kFloat) && std::isnan(value.as_real());
}

template <class T>
void append_raw(std::string& out, const T& value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

// Values that compare equal get equal keys; strings are handled apart.
void append_hash_key(const Value& value, std::string& out) {
  constexpr std::size_t kMaxHashKeyBytes = 1 << 20;  // tuples that share parts can be far longer than they look
  if (out.size() > kMaxHashKeyBytes) raise("a dict key of more than {} bytes is not allowed", kMaxHashKeyBytes);
  switch (value.kind()) {
    case Kind::kNone:
    case Kind::kUndefined:
      out += value.is_none() ? 'n' : 'u';
      return;
    case Kind::kBool:
    case Kind::kInt:
      out += 'i';
      append_raw(out, value.as_int());
      return;
    case Kind::kFloat: {
      const double f = value.as_real();
      if (std::abs(f) < 0x1p120 && f == std::floor(f)) {
        out += 'i';
        append_raw(out, static_cast<Int>(f));
      } else {
        out += 'f';
        append_raw(out, f);
      }
      return;
    }
    case Kind::kString:
      out += 's';
      append_raw(out, value.bytes().size());
      out += value.bytes();
      return;
    case Kind::kTuple:
      out += '(';
      for (const Value& item : value.list().items) append_hash_key(item, out);
      out += ')';
      return;
    case Kind::kList:
    case Kind::kDict:
      raise("unhashable type: '{}'", type_name(value));
    case Kind::kView:
      if (value.view().what != ViewObject::What::kValues) raise("unhashable type: '{}'", type_name(value));
      [[fallthrough]];
    default:
      out += 'o';
      append_raw(out, value.object().get());
  }
}

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equals(a[i], b[i], budget)) return false;
  return true;
}

bool equal_dicts(DictObject& a, DictObject& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equals(value, *other, budget)) return false;
  }
  return true;
}

bool equal_ranges(const RangeObject& a, const RangeObject& b) {
  if (a.length != b.length) return false;
  return a.length == 0 || (a.start == b.start && (a.length == 1 || a.step == b.step));
}

// -1, 0, 1 for lists and tuples, by the first items that differ.
int compare_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget, std::string_view sign) {
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (equals(a[i], b[i], budget)) continue;
    return less(a[i], b[i], budget, sign) ? -1 : 1;
  }
  return a.size() < b.size() ? -1 : a.size() > b.size();
}

// The order of two values, or nothing if one is not a number.
std::optional<int> compare(const Value& a, const Value& b, Budget& budget, std::string_view sign) {
  budget.step();
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) {
    if (is_nan(a) || is_nan(b)) return std::nullopt;
    return compare_numbers(a, b);
  }
  if (a.is_string() && b.is_string()) {
    budget.scan(std::min(a.bytes().size(), b.bytes().size()));
    const int order = a.bytes().compare(b.bytes());  // UTF-8 orders as the code points do
    return order < 0 ? -1 : order > 0;
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple()))
    return compare_items(a.list().items, b.list().items, budget, sign);
  raise("'{}' not supported between instances of '{}' and '{}'", sign, type_name(a), type_name(b));
}

std::shared_ptr<ListObject> make_items(std::vector<Value> items, Budget& budget) {
  budget.items(items.size());
  auto object = std::make_shared<ListObject>();
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  object->depth = depth_around(depth);
  object->items = std::move(items);
  return object;
}

}  // namespace

std::size_t DictObject::position(std::string_view key) {
  if (entries.size() <= kLinear) {
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].first.is_string() && entries[i].first.bytes() == key) return i;
    return entries.size();
  }
  index_all();
  const auto found = strings_.find(key);
  return found == strings_.end() ? entries.size() : found->second;
}

std::size_t DictObject::position(const Value& key) {
  if (key.is_string()) return position(key.bytes());
  std::string hash_key;
  append_hash_key(key, hash_key);
  index_all();
  const auto found = others_.find(hash_key);
  return found == others_.end() ? entries.size() : found->second;
}

void DictObject::index_all() {
  for (; indexed_ < entries.size(); ++indexed_) {
    const Value& key = entries[indexed_].first;
    if (key.is_string()) {
      strings_.emplace(key.bytes(), indexed_);
    } else {
      std::string hash_key;
      append_hash_key(key, hash_key);
      others_.emplace(std::move(hash_key), indexed_);
    }
  }
}

const Value* DictObject::find(const Value& key) {
  const std::size_t at = position(key);
  return at == entries.size() ? nullptr : &entries[at].second;
}

const Value* DictObject::find(std::string_view key) {
  const std::size_t at = position(key);
  return at == entries.size() ? nullptr : &entries[at].second;
}

void DictObject::set(Value key, Value value) {
  const std::size_t at = position(key);
  depth = std::max({depth, depth_around(depth_of(value)), depth_around(depth_of(key))});
  if (at == entries.size()) {
    entries.emplace_back(std::move(key), std::move(value));
  } else {
    entries[at].second = std::move(value);
  }
}

Value make_list(std::vector<Value> items, Budget& budget) {
  return Value::object(Kind::kList, make_items(std::move(items), budget));
}

Value make_tuple(std::vector<Value> items, Budget& budget) {
  return Value::object(Kind::kTuple, make_items(std::move(items), budget));
}

Value make_dict(std::shared_ptr<DictObject> dict) {
  return Value::object(Kind::kDict, std::move(dict));
}

void add_entry(DictObject& dict, Value key, Value value, Budget& budget) {
  constexpr std::size_t kEntryBytes = 128;  // key, value and their share of the index
  if (dict.entries.size() >= kMaxItems) budget.items(dict.entries.size() + 1);
  budget.spend(kEntryBytes);
  dict.set(std::move(key), std::move(value));
}

int depth_around(int inside) {
  if (inside >= kMaxValueDepth) raise("values nested more than {} levels deep are not allowed", kMaxValueDepth);
  return inside + 1;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.is_safe() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return value.list().is_group ? "_GroupTuple" : "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kView:
      return value.view().what == ViewObject::What::kKeys     ? "dict_keys"
             : value.view().what == ViewObject::What::kValues ? "dict_values"
                                                              : "dict_items";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return value.iterator().type_name;
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

std::optional<std::size_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return value.text().chars();
    case Kind::kList:
    case Kind::kTuple:
      return value.list().items.size();
    case Kind::kDict:
      return value.dict().entries.size();
    case Kind::kView:
      return value.view().dict->entries.size();
    case Kind::kRange:
      return static_cast<std::size_t>(value.range().length);
    default:
      return std::nullopt;
  }
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.as_bool();
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_real() != 0;
    default: {
      const auto length = length_of(value);
      return !length || *length != 0;
    }
  }
}

bool equals(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) return !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (a.bytes().size() != b.bytes().size()) return false;
      budget.scan(a.bytes().size());
      return a.bytes() == b.bytes();
    case Kind::kList:
    case Kind::kTuple:
      return a.object() == b.object() || equal_items(a.list().items, b.list().items, budget);
    case Kind::kDict:
      return a.object() == b.object() || equal_dicts(a.dict(), b.dict(), budget);
    case Kind::kRange:
      return equal_ranges(a.range(), b.range());
    case Kind::kView:
      if (a.object() == b.object()) return true;
      if (a.view().what != b.view().what || a.view().what == ViewObject::What::kValues) return false;
      if (a.view().what == ViewObject::What::kItems) return equal_dicts(*a.view().dict, *b.view().dict, budget);
      if (a.view().dict->entries.size() != b.view().dict->entries.size()) return false;
      for (const auto& [key, value] : a.view().dict->entries)
        if (b.view().dict->find(key) == nullptr) return false;
      return true;
    case Kind::kMethod:
      return a.method().call == b.method().call && same_object(a.method().self, b.method().self);
    default:
      return a.object() == b.object();
  }
}

bool same_object(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kMissing:
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Kind::kInt:
      return a.as_int() == b.as_int();
    case Kind::kFloat:
      return std::bit_cast<std::uint64_t>(a.as_real()) == std::bit_cast<std::uint64_t>(b.as_real());
    case Kind::kString:
      return a.object() == b.object() || a.bytes() == b.bytes();
    default:
      return a.object() == b.object();
  }
}

bool less(const Value& a, const Value& b, Budget& budget, std::string_view sign) {
  const auto order = compare(a, b, budget, sign);
  return order && *order < 0;
}

bool less_or_equal(const Value& a, const Value& b, Budget& budget, std::string_view sign) {
  const auto order = compare(a, b, budget, sign);
  return order && *order <= 0;
}

bool greater(const Value& a, const Value& b, Budget& budget, std::string_view sign) {
  const auto order = compare(a, b, budget, sign);
  return order && *order > 0;
}

bool greater_or_equal(const Value& a, const Value& b, Budget& budget, std::string_view sign) {
  const auto order = compare(a, b, budget, sign);
  return order && *order >= 0;
}

void raise_undefined(const Value& value) {
  throw TemplateError(value.undefined().message);
}

bool has_user_data(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return value.text().has_user();
    case Kind::kList:
    case Kind::kTuple:
      return std::any_of(value.list().items.begin(), value.list().items.end(), has_user_data);
    case Kind::kDict:
    case Kind::kView: {
      const DictObject& dict = value.is_dict() ? value.dict() : *value.view().dict;
      return std::any_of(dict.entries.begin(), dict.entries.end(),
                         [](const auto& entry) { return has_user_data(entry.first) || has_user_data(entry.second); });
    }
    case Kind::kNamespace:
      return true;  // it may contain itself; nobody prints one for its control tokens
    default:
      return value.user();
  }
}

}  // namespace weir::text::jinja
