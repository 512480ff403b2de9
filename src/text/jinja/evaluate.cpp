// Expressions.

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/interpreter_guards.h"
#include "text/jinja/operators.h"

namespace weir::text::jinja {

namespace {

// What messages call a value: Jinja's object_type_repr.
std::string describe_object(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kNamespace:
    case Kind::kCycler:
    case Kind::kJoiner:
      return fmt::format("jinja2.utils.{} object", type_name(value));
    case Kind::kMacro:
    case Kind::kLoop:
      return fmt::format("jinja2.runtime.{} object", type_name(value));
    default:
      return fmt::format("{}{} object", value.is_string() && value.is_safe() ? "markupsafe." : "", type_name(value));
  }
}

// Names in messages are cut: they can be a whole document of a caller.
std::string short_repr(std::string_view name) {
  constexpr std::size_t kMaxNameBytes = 200;
  if (name.size() <= kMaxNameBytes) return repr_of_string(name);
  std::size_t end = kMaxNameBytes;
  while ((static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return repr_of_string(name.substr(0, end)) + "...";
}

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute {}", describe_object(object), short_repr(name)));
}

// object[key] without attributes; missing if there is no such item.
Value plain_item(Interpreter& in, const Value& object, const Value& key) {
  if (object.is_dict()) {
    if (key.is_string()) {
      const Value* found = object.dict().find(key.bytes());
      return found == nullptr ? Value() : *found;
    }
    if (key.is_list() || key.is_dict()) return {};  // cannot be keys
    const Value* found = object.dict().find(key);
    return found == nullptr ? Value() : *found;
  }
  if (!key.is_integral()) return {};
  const auto length = length_of(object);
  if (!length) return {};
  const auto size = static_cast<Int>(*length);
  const Int index = key.as_int() < 0 ? key.as_int() + size : key.as_int();
  if (index < 0 || index >= size) return {};
  const auto at = static_cast<std::size_t>(index);
  switch (object.kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return object.list().items[at];
    case Kind::kRange:
      return Value::integer(object.range().start + index * object.range().step);
    case Kind::kString: {
      const Value next = Value::integer(index + 1);
      return slice_of(in, object, Value::integer(index), next, Value());
    }
    default:
      return {};
  }
}

}  // namespace

Value Interpreter::attribute(const Value& object, std::string_view name) {
  require_defined(object);
  if (Value found = find_attribute(*this, object, name); !found.is_missing()) return found;
  if (object.is_dict())
    if (const Value* found = object.dict().find(name)) return *found;
  return no_attribute(object, name);
}

Value Interpreter::item(const Value& object, const Value& key) {
  require_defined(object);
  if (Value found = plain_item(*this, object, key); !found.is_missing()) return found;
  if (!key.is_string()) {
    return Value::undefined(fmt::format("{} has no element {}", describe_object(object), to_repr(key, budget_)));
  }
  if (Value found = find_attribute(*this, object, key.bytes()); !found.is_missing()) return found;
  return no_attribute(object, key.bytes());
}

Value Interpreter::evaluate_name(const Expr& expr, Scope& scope) {
  const Value& value = scope.outer(expr.hops).slots[static_cast<std::size_t>(expr.slot)];
  if (value.is_missing()) return Value::undefined(fmt::format("'{}' is undefined", expr.name));
  return value;
}

Value Interpreter::evaluate_container(const Expr& expr, Scope& scope) {
  if (expr.kind == ExprKind::kDict) {
    auto dict = std::make_shared<DictObject>();
    for (std::size_t i = 0; i < expr.items.size(); i += 2) {
      Value key = evaluate(*expr.items[i], scope);
      add_entry(*dict, std::move(key), evaluate(*expr.items[i + 1], scope), budget_);
    }
    return make_dict(std::move(dict));
  }
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(evaluate(*item, scope));
  return expr.kind == ExprKind::kList ? make_list(std::move(items), budget_) : make_tuple(std::move(items), budget_);
}

Value Interpreter::evaluate_slice(const Expr& expr, Scope& scope) {
  const Value object = evaluate(*expr.items[0], scope);
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (expr.items[i + 1]) bounds[i] = evaluate(*expr.items[i + 1], scope);
  return slice_of(*this, object, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::evaluate_concat(const Expr& expr, Scope& scope) {
  TextBuilder out;
  for (const ExprPtr& part : expr.items) {
    const Value value = evaluate(*part, scope);
    if (value.is_string()) {
      out.append(value.text());
    } else {
      out.append(to_text(value, budget_));
    }
    budget_.limit(out.size());
  }
  budget_.text(out.size());
  return Value::string(out.take());
}

bool Interpreter::evaluate_compare(const Expr& expr, Scope& scope) {
  Value left = evaluate(*expr.items[0], scope);
  for (std::size_t i = 0; i < expr.compare.size(); ++i) {
    Value right = evaluate(*expr.items[i + 1], scope);
    if (!compare(*this, expr.compare[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Args Interpreter::evaluate_args(const CallArgs& call, Scope& scope) {
  Args args;
  args.positional.reserve(call.positional.size());
  for (const ExprPtr& arg : call.positional) args.positional.push_back(evaluate(*arg, scope));
  if (call.star) {
    const std::vector<Value> more = to_items(evaluate(*call.star, scope));
    args.positional.insert(args.positional.end(), more.begin(), more.end());
  }
  for (const auto& [name, arg] : call.named) args.named.emplace_back(name, evaluate(*arg, scope));
  if (call.double_star) {
    const Value more = evaluate(*call.double_star, scope);
    if (!more.is_dict()) raise("argument after ** must be a mapping, not {}", type_name(more));
    for (const auto& [key, value] : more.dict().entries) {
      if (!key.is_string()) raise("keywords must be strings");
      const auto same = [&](const auto& arg) { return arg.first == key.bytes(); };
      if (std::any_of(args.named.begin(), args.named.begin() + static_cast<std::ptrdiff_t>(call.named.size()), same))
        raise("got multiple values for keyword argument '{}'", key.bytes());
      args.named.emplace_back(key.bytes(), value);
    }
  }
  budget_.step(args.positional.size() + args.named.size());
  return args;
}

Value Interpreter::evaluate_filter(const Expr& expr, Value input, Scope& scope) {
  if (expr.items[0])
    input = expr.items[0]->kind == ExprKind::kFilter ? evaluate_filter(*expr.items[0], std::move(input), scope)
                                                     : evaluate(*expr.items[0], scope);
  const Depth depth(*this);
  budget_.step();
  const Args args = evaluate_args(*expr.call, scope);
  line_ = expr.line;
  if (expr.filter == nullptr) raise("No filter named '{}' found.", expr.name);
  return expr.filter->call(*this, input, args);
}

Value Interpreter::evaluate_call(const Expr& expr, Scope& scope, const Value* caller) {
  const Value callee = evaluate(*expr.items[0], scope);
  Args args = evaluate_args(*expr.call, scope);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(callee, std::move(args));
}

Value Interpreter::evaluate(const Expr& expr, Scope& scope) {
  const Depth depth(*this);
  budget_.step();
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.value;
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      return evaluate_name(expr, scope);
    case ExprKind::kTuple:
    case ExprKind::kList:
    case ExprKind::kDict:
      return evaluate_container(expr, scope);
    case ExprKind::kAttribute:
      return attribute(evaluate(*expr.items[0], scope), expr.name);
    case ExprKind::kItem: {
      const Value object = evaluate(*expr.items[0], scope);
      return item(object, evaluate(*expr.items[1], scope));
    }
    case ExprKind::kSlice:
      return evaluate_slice(expr, scope);
    case ExprKind::kCall:
      return evaluate_call(expr, scope, nullptr);
    case ExprKind::kFilter:
      return evaluate_filter(expr, {}, scope);
    case ExprKind::kTest: {
      const Value subject = evaluate(*expr.items[0], scope);
      const Args args = evaluate_args(*expr.call, scope);
      if (expr.test == nullptr) raise("No test named '{}' found.", expr.name);
      return Value::boolean(expr.test->call(*this, subject, args));
    }
    case ExprKind::kConditional:
      if (truth(evaluate(*expr.items[1], scope))) return evaluate(*expr.items[0], scope);
      if (expr.items[2]) return evaluate(*expr.items[2], scope);
      return Value::undefined(fmt::format(
          "the inline if-expression on line {} evaluated to false and no else section was defined.", expr.line));
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value left = evaluate(*expr.items[0], scope);
      return truth(left) == (expr.kind == ExprKind::kOr) ? left : evaluate(*expr.items[1], scope);
    }
    case ExprKind::kNot:
      return Value::boolean(!truth(evaluate(*expr.items[0], scope)));
    case ExprKind::kNegate:
      return negate(evaluate(*expr.items[0], scope));
    case ExprKind::kPlus:
      return plus(evaluate(*expr.items[0], scope));
    case ExprKind::kBinary: {
      const Value left = evaluate(*expr.items[0], scope);
      return binary(*this, expr.op, left, evaluate(*expr.items[1], scope));
    }
    case ExprKind::kConcat:
      return evaluate_concat(expr, scope);
    case ExprKind::kCompare:
      return Value::boolean(evaluate_compare(expr, scope));
  }
  return {};
}

}  // namespace weir::text::jinja
