// What a template finds on values besides their items: the methods and properties of Python's types.

#include <algorithm>
#include <cmath>
#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter_guards.h"

namespace weir::text::jinja {

namespace {

using Method = Value (*)(Interpreter&, const Value&, const Args&);
using MethodEntry = std::pair<std::string_view, Method>;

Value bind(const Value& self, std::string_view name, Method call) {
  auto method = std::make_shared<MethodObject>();
  method->self = self;
  method->name = name;
  method->call = call;
  method->depth = depth_around(depth_of(self));
  return Value::object(Kind::kMethod, std::move(method));
}

template <std::size_t n>
Value find_method(const MethodEntry (&methods)[n], const Value& self, std::string_view name) {
  for (const auto& [known, call] : methods)
    if (known == name) return bind(self, known, call);
  return {};
}

template <std::size_t n>
bool is_one_of(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

template <ViewObject::What what>
Value dict_view(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("dict method", args, {});
  auto view = std::make_shared<ViewObject>();
  view->dict = std::static_pointer_cast<DictObject>(self.object());
  view->what = what;
  view->depth = depth_around(view->dict->depth);
  return Value::object(Kind::kView, std::move(view));
}

Value dict_get(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("get", args, {"key", "default"}, 1);
  if (const Value* found = self.dict().find(bound.at(0))) return *found;
  return bound.has(1) ? bound.at(1) : Value::none();
}

// Nothing can change a value, so a copy may share it.
Value copy(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("copy", args, {});
  return self;
}

Value not_supported(Interpreter&, const Value&, const Args&) {
  raise("this method is not supported in chat templates");
}

Value count_items(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("count", args, {"value"}, 1);
  Int count = 0;
  const auto items = in.iterate(self);
  for (Value item; items->next(in, item);) count += equals(item, bound.at(0), in.budget()) ? 1 : 0;
  return Value::integer(count);
}

Value index_of_item(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("index", args, {"value", "start", "stop"}, 1);
  const auto length = static_cast<std::int64_t>(*length_of(self));
  const auto position = [&](std::size_t i, std::int64_t fallback) {
    if (!bound.has(i)) return fallback;
    const std::int64_t at = require_index(bound.at(i));
    return at < 0 ? std::max<std::int64_t>(at + length, 0) : at;
  };
  const std::int64_t start = position(1, 0), stop = position(2, length);
  const auto items = in.iterate(self);
  std::int64_t at = 0;
  for (Value item; items->next(in, item); ++at)
    if (at >= start && at < stop && equals(item, bound.at(0), in.budget())) return Value::integer(at);
  raise("the value is not in the {}", type_name(self));
}

constexpr MethodEntry kDictMethods[] = {
    {"items", dict_view<ViewObject::What::kItems>},   {"get", dict_get}, {"keys", dict_view<ViewObject::What::kKeys>},
    {"values", dict_view<ViewObject::What::kValues>}, {"copy", copy},    {"fromkeys", not_supported},
};
constexpr std::string_view kDictChanges[] = {"update", "pop", "popitem", "setdefault", "clear"};
constexpr MethodEntry kListMethods[] = {{"count", count_items}, {"index", index_of_item}, {"copy", copy}};
constexpr std::string_view kListChanges[] = {"append", "extend", "insert", "pop", "remove", "sort", "reverse", "clear"};
constexpr MethodEntry kTupleMethods[] = {{"count", count_items}, {"index", index_of_item}};

Value loop_cycle(Interpreter&, const Value& self, const Args& args) {
  if (args.positional.empty()) raise("no items for cycling given");
  const std::int64_t index = std::max<std::int64_t>(loop_of(self).index0, 0);
  return args.positional[static_cast<std::size_t>(index) % args.positional.size()];
}

Value loop_changed(Interpreter& in, const Value& self, const Args& args) {
  auto& last = loop_of(self).last_changed;
  bool same = last && last->size() == args.positional.size();
  for (std::size_t i = 0; same && i < args.positional.size(); ++i)
    same = equals((*last)[i], args.positional[i], in.budget());
  if (!same) last = args.positional;
  return Value::boolean(!same);
}

constexpr MethodEntry kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

Value loop_attribute(Interpreter& in, const Value& self, std::string_view name) {
  LoopObject& loop = loop_of(self);
  const auto length = [&] { return static_cast<Int>(loop.length(in)); };
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(loop.peek(in).is_missing());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - loop.index0);
  if (name == "revindex0") return Value::integer(length() - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem")
    return loop.index0 <= 0 || loop.before.is_missing() ? Value::undefined("there is no previous item") : loop.before;
  if (name == "nextitem") {
    const Value& next = loop.peek(in);
    return next.is_missing() ? Value::undefined("there is no next item") : next;
  }
  return find_method(kLoopMethods, self, name);
}

Value macro_attribute(Interpreter& in, const Value& self, std::string_view name) {
  const Stmt& definition = *macro_of(self).definition;
  if (name == "name") return definition.name.empty() ? Value::none() : Value::string(definition.name);
  if (name == "catch_kwargs") return Value::boolean(definition.kwargs_slot >= 0);
  if (name == "catch_varargs") return Value::boolean(definition.varargs_slot >= 0);
  if (name == "caller") return Value::boolean(definition.caller_slot >= 0);
  if (name != "arguments") return {};
  std::vector<Value> names;
  for (const Parameter& parameter : definition.parameters) names.push_back(Value::string(parameter.name));
  return make_tuple(std::move(names), in.budget());
}

Value cycler_next(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("next", args, {});
  CyclerObject& cycler = self.cycler();
  Value value = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return value;
}

Value cycler_reset(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("reset", args, {});
  self.cycler().position = 0;
  return Value::none();
}

constexpr MethodEntry kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

Value bit_length(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("bit_length", args, {});
  Int bits = 0;
  for (Int rest = self.as_int() < 0 ? -self.as_int() : self.as_int(); rest > 0; rest /= 2) ++bits;
  return Value::integer(bits);
}

Value is_integer(Interpreter&, const Value& self, const Args& args) {
  const Bound bound("is_integer", args, {});
  return Value::boolean(std::isfinite(self.as_real()) && self.as_real() == std::floor(self.as_real()));
}

constexpr MethodEntry kIntMethods[] = {{"bit_length", bit_length}, {"conjugate", copy}};
constexpr MethodEntry kFloatMethods[] = {{"is_integer", is_integer}, {"conjugate", copy}};

Value number_attribute(const Value& self, std::string_view name) {
  const bool integral = self.is_integral();
  if (name == "real" || (integral && name == "numerator"))
    return integral ? Value::integer(self.as_int(), self.user()) : self;
  if (name == "imag") return integral ? Value::integer(0) : Value::real(0.0);
  if (integral && name == "denominator") return Value::integer(1);
  return integral ? find_method(kIntMethods, self, name) : find_method(kFloatMethods, self, name);
}

Value range_attribute(const Value& self, std::string_view name) {
  const RangeObject& range = self.range();
  if (name == "start") return Value::integer(range.start);
  if (name == "stop") return Value::integer(range.stop);
  if (name == "step") return Value::integer(range.step);
  return find_method(kTupleMethods, self, name);
}

// Python's own attributes, present on every object and hidden by the sandbox.
bool is_internal(std::string_view name) {
  static constexpr std::string_view kInternal[] = {
      "__class__",   "__doc__",          "__init__",
      "__new__",     "__repr__",         "__str__",
      "__hash__",    "__eq__",           "__ne__",
      "__lt__",      "__le__",           "__gt__",
      "__ge__",      "__dir__",          "__format__",
      "__reduce__",  "__reduce_ex__",    "__getattribute__",
      "__setattr__", "__delattr__",      "__sizeof__",
      "__len__",     "__getitem__",      "__contains__",
      "__iter__",    "__subclasshook__", "__init_subclass__",
  };
  return is_one_of(kInternal, name);
}

Value hidden(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)),
                          true);
}

}  // namespace

Value find_attribute(Interpreter& in, const Value& object, std::string_view name) {
  if (name.starts_with("__") && is_internal(name)) return hidden(object, name);
  switch (object.kind()) {
    case Kind::kString:
      return find_string_method(object, name);
    case Kind::kDict:
      return is_one_of(kDictChanges, name) ? hidden(object, name) : find_method(kDictMethods, object, name);
    case Kind::kList:
      return is_one_of(kListChanges, name) ? hidden(object, name) : find_method(kListMethods, object, name);
    case Kind::kTuple:
      if (object.list().is_group && name == "grouper") return object.list().items[0];
      if (object.list().is_group && name == "list") return object.list().items[1];
      return find_method(kTupleMethods, object, name);
    case Kind::kNamespace: {
      const Value* found = object.name_space().attributes->find(name);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kLoop:
      return loop_attribute(in, object, name);
    case Kind::kMacro:
      return macro_attribute(in, object, name);
    case Kind::kCycler:
      if (name == "current") return object.cycler().items[object.cycler().position];
      return find_method(kCyclerMethods, object, name);
    case Kind::kJoiner:
      if (name == "sep") return object.joiner().separator;
      return name == "used" ? Value::boolean(object.joiner().used) : Value();
    case Kind::kRange:
      return range_attribute(object, name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return number_attribute(object, name);
    default:
      return {};
  }
}

}  // namespace weir::text::jinja
