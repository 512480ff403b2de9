#include "text/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "text/jinja/filters.h"
#include "text/jinja/interpreter_guards.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"

namespace weir::text::jinja {

Bound::Bound(std::string_view function, const Args& args, std::initializer_list<std::string_view> parameters,
             std::size_t required)
    : function_(function) {
  std::copy(parameters.begin(), parameters.end(), std::begin(parameters_));
  if (args.positional.size() > parameters.size())
    raise("{}() takes at most {} arguments ({} given)", function, parameters.size(), args.positional.size());
  for (std::size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) raise("{}() got an unexpected keyword argument '{}'", function, name);
    const Value*& slot = values_[static_cast<std::size_t>(found - parameters.begin())];
    if (slot != nullptr) raise("{}() got multiple values for argument '{}'", function, name);
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (values_[i] == nullptr) raise("{}() missing required argument: '{}'", function, parameters_[i]);
}

Int Bound::integer(std::size_t i, Int fallback) const {
  return has(i) ? Int{require_index(at(i))} : fallback;
}

const Value& Bound::string(std::size_t i) const {
  require_defined(at(i));
  if (!at(i).is_string()) raise("{}() argument '{}' must be str, not {}", function_, parameters_[i], type_name(at(i)));
  return at(i);
}

std::int64_t require_index(const Value& value) {
  require_defined(value);
  if (!value.is_integral()) raise("'{}' object cannot be interpreted as an integer", type_name(value));
  const Int wide = value.as_int();
  if (wide != static_cast<std::int64_t>(wide)) raise("the integer {} is too large here", int_to_string(wide));
  return static_cast<std::int64_t>(wide);
}

namespace {

Value global_range(Interpreter&, const Args& args) {
  const Bound bound("range", args, {"start", "stop", "step"}, 1);
  const bool one = !bound.has(1);
  const Int start = one ? 0 : require_index(bound.at(0)), stop = require_index(bound.at(one ? 0 : 1));
  return Value::object(Kind::kRange, std::make_shared<RangeObject>(make_range(start, stop, bound.integer(2, 1))));
}

// dict(mapping or pairs, name=value ...).
std::shared_ptr<DictObject> build_dict(Interpreter& in, const Args& args, std::string_view function) {
  auto dict = std::make_shared<DictObject>();
  if (args.positional.size() > 1) raise("{} expected at most 1 argument, got {}", function, args.positional.size());
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_dict()) {
      for (const auto& [key, value] : source.dict().entries) add_entry(*dict, key, value, in.budget());
    } else {
      for (const Value& pair : in.to_items(source)) {
        const std::vector<Value> items = in.to_items(pair);
        if (items.size() != 2) raise("dictionary update sequence element has length {}; 2 is required", items.size());
        add_entry(*dict, items[0], items[1], in.budget());
      }
    }
  }
  for (const auto& [name, value] : args.named) add_entry(*dict, Value::string(name), value, in.budget());
  return dict;
}

Value global_dict(Interpreter& in, const Args& args) {
  return make_dict(build_dict(in, args, "dict"));
}

Value global_namespace(Interpreter& in, const Args& args) {
  auto attributes = build_dict(in, args, "namespace");
  for (const auto& [name, value] : attributes->entries)
    if (name.is_string()) refuse_private_attribute(name.bytes());
  return in.make_namespace(std::move(attributes));
}

Value global_cycler(Interpreter& in, const Args& args) {
  if (args.positional.empty()) raise("at least one item has to be provided");
  auto cycler = std::make_shared<CyclerObject>();
  in.budget().items(args.positional.size());
  cycler->items = args.positional;
  int depth = 0;
  for (const Value& item : cycler->items) depth = std::max(depth, depth_of(item));
  cycler->depth = depth_around(depth);
  return Value::object(Kind::kCycler, std::move(cycler));
}

Value global_joiner(Interpreter&, const Args& args) {
  const Bound bound("joiner", args, {"sep"});
  auto joiner = std::make_shared<JoinerObject>();
  joiner->separator = bound.has(0) ? bound.at(0) : Value::string(", ");
  joiner->depth = depth_around(depth_of(joiner->separator));
  return Value::object(Kind::kJoiner, std::move(joiner));
}

Value global_raise_exception(Interpreter& in, const Args& args) {
  const Bound bound("raise_exception", args, {"message"}, 1);
  throw TemplateError(to_text(bound.at(0), in.budget()).bytes());
}

Value global_strftime_now(Interpreter& in, const Args& args) {
  const Bound bound("strftime_now", args, {"format"}, 1);
  const std::string format(bound.string(0).bytes());
  constexpr std::size_t kMaxFormatBytes = 1000,
                        kMaxDateBytes = 64 * kMaxFormatBytes;  // no item makes more than 64 bytes
  if (format.size() > kMaxFormatBytes) raise("strftime_now(): a format of {} bytes is too long", format.size());
  if (format.empty()) return Value::string("");
  // The marker tells an empty result from a failure. Widths such as "%99999d" fail.
  const std::string marked = format + "|";
  std::string out(kMaxDateBytes, '\0');
  const std::tm now = in.now();
  const std::size_t size = std::strftime(out.data(), out.size(), marked.c_str(), &now);
  if (size == 0) raise("strftime_now(): the format {} makes more than {} bytes", repr_of_string(format), kMaxDateBytes);
  out.resize(size - 1);
  return Value::string(std::move(out), bound.at(0).text().has_user());
}

constexpr std::pair<std::string_view, Value (*)(Interpreter&, const Args&)> kGlobals[] = {
    {"range", global_range},
    {"dict", global_dict},
    {"namespace", global_namespace},
    {"cycler", global_cycler},
    {"joiner", global_joiner},
    {"raise_exception", global_raise_exception},
    {"strftime_now", global_strftime_now},
};

using TestCall = bool (*)(Interpreter&, const Value&, const Args&);

const Value& operand(const Args& args, std::string_view test) {
  const Bound bound(test, args, {"other"}, 1);
  return bound.at(0);
}

template <CompareOp op>
bool test_compare(Interpreter& in, const Value& value, const Args& args) {
  return compare(in, op, value, operand(args, "comparison"));
}

template <bool (*Holds)(const Value&)>
bool test_kind(Interpreter&, const Value& value, const Args& args) {
  const Bound bound("test", args, {});
  return Holds(value);
}

bool remainder_is(Interpreter& in, const Value& value, const Value& divisor, Int rest) {
  return equals(binary(in, BinaryOp::kMod, value, divisor), Value::integer(rest), in.budget());
}

template <int rest>
bool test_parity(Interpreter& in, const Value& value, const Args&) {
  return remainder_is(in, value, Value::integer(2), rest);
}

bool test_divisible_by(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("divisibleby", args, {"num"}, 1);
  return remainder_is(in, value, bound.at(0), 0);
}

template <bool upper_case>
bool test_case(Interpreter& in, const Value& value, const Args&) {
  const Text text = to_text(value, in.budget());
  in.budget().scan(text.size() * 4);
  return has_only_case(text.bytes(), upper_case);
}

bool test_same_as(Interpreter&, const Value& value, const Args& args) {
  return same_object(value, operand(args, "sameas"));
}
bool test_in(Interpreter& in, const Value& value, const Args& args) {
  const Bound bound("in", args, {"seq"}, 1);
  return contains(in, bound.at(0), value);
}
bool test_filter(Interpreter&, const Value& value, const Args&) {
  return value.is_string() && find_filter(value.bytes()) != nullptr;
}
bool test_test(Interpreter&, const Value& value, const Args&) {
  return value.is_string() && find_test(value.bytes()) != nullptr;
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.is(Kind::kBool);
}
bool is_true(const Value& value) {
  return value.is(Kind::kBool) && value.as_bool();
}
bool is_false(const Value& value) {
  return value.is(Kind::kBool) && !value.as_bool();
}
bool is_integer(const Value& value) {
  return value.is(Kind::kInt);
}
bool is_float(const Value& value) {
  return value.is(Kind::kFloat);
}
bool is_string(const Value& value) {
  return value.is_string();
}
bool is_mapping(const Value& value) {
  return value.is_dict();
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_sequence(const Value& value) {
  return length_of(value).has_value() && !value.is(Kind::kView);
}
bool is_iterable_value(const Value& value) {
  return is_iterable(value) || value.is(Kind::kLoop);
}
bool is_escaped(const Value& value) {
  return value.is_string() && value.is_safe();
}
bool is_callable(const Value& value) {
  return value.is(Kind::kMacro) || value.is(Kind::kFunction) || value.is(Kind::kMethod) || value.is(Kind::kLoop) ||
         value.is(Kind::kJoiner) || value.is_undefined();
}

constexpr Test kTests[] = {
    {"defined", test_kind<is_defined>},
    {"string", test_kind<is_string>},
    {"none", test_kind<is_none>},
    {"mapping", test_kind<is_mapping>},
    {"iterable", test_kind<is_iterable_value>},
    {"sequence", test_kind<is_sequence>},
    {"undefined", test_kind<is_undefined>},
    {"true", test_kind<is_true>},
    {"false", test_kind<is_false>},
    {"boolean", test_kind<is_boolean>},
    {"number", test_kind<is_number>},
    {"integer", test_kind<is_integer>},
    {"float", test_kind<is_float>},
    {"callable", test_kind<is_callable>},
    {"escaped", test_kind<is_escaped>},
    {"odd", test_parity<1>},
    {"even", test_parity<0>},
    {"divisibleby", test_divisible_by},
    {"lower", test_case<false>},
    {"upper", test_case<true>},
    {"sameas", test_same_as},
    {"in", test_in},
    {"filter", test_filter},
    {"test", test_test},
    {"==", test_compare<CompareOp::kEq>},
    {"eq", test_compare<CompareOp::kEq>},
    {"equalto", test_compare<CompareOp::kEq>},
    {"!=", test_compare<CompareOp::kNe>},
    {"ne", test_compare<CompareOp::kNe>},
    {">", test_compare<CompareOp::kGt>},
    {"gt", test_compare<CompareOp::kGt>},
    {"greaterthan", test_compare<CompareOp::kGt>},
    {">=", test_compare<CompareOp::kGe>},
    {"ge", test_compare<CompareOp::kGe>},
    {"<", test_compare<CompareOp::kLt>},
    {"lt", test_compare<CompareOp::kLt>},
    {"lessthan", test_compare<CompareOp::kLt>},
    {"<=", test_compare<CompareOp::kLe>},
    {"le", test_compare<CompareOp::kLe>},
};

}  // namespace

Value find_global(std::string_view name) {
  for (const auto& [known, call] : kGlobals) {
    if (known != name) continue;
    auto function = std::make_shared<FunctionObject>();
    function->name = known;
    function->call = call;
    return Value::object(Kind::kFunction, std::move(function));
  }
  return {};
}

const Test* find_test(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const Test& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

const Filter* find_filter(std::string_view name) {
  for (const auto filters : {text_filters(), item_filters()})
    for (const Filter& filter : filters)
      if (filter.name == name) return &filter;
  return nullptr;
}

}  // namespace weir::text::jinja
