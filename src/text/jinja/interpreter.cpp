// Statements, scopes and macros. Expressions are in evaluate.cpp.

#include "text/jinja/interpreter.h"

#include <algorithm>
#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter_guards.h"

namespace weir::text::jinja {

namespace {

// The items of a loop that pass its `if`.
struct LoopFilter : IteratorObject {
  std::shared_ptr<IteratorObject> source;
  std::function<bool(const Value&)> accepts;

  bool next(Interpreter& in, Value& out) override {
    while (source->next(in, out))
      if (accepts(out)) return true;
    return false;
  }
};

}  // namespace

Interpreter::Interpreter(const Template& source, std::shared_ptr<DictObject> variables, const Budget& budget,
                         const std::tm& now)
    : template_(source), variables_(std::move(variables)), budget_(budget), now_(now) {}

// Scopes, macros and namespaces refer to each other in circles and chains of any length: empty them one by one.
Interpreter::~Interpreter() {
  if (root_) kept_.push_back(root_);
  for (const auto& scope : kept_) scope->slots.clear();
  for (const auto& name_space : namespaces_) name_space->attributes->entries.clear();
}

Text Interpreter::run() {
  TextBuilder out;
  out_ = &out;
  root_ = new_scope(template_.scope, nullptr);
  enter(template_.scope, *root_);
  execute(template_.body, *root_);
  out_ = nullptr;
  return out.take();
}

std::shared_ptr<Scope> Interpreter::new_scope(const ScopeInfo& info, Scope* parent) {
  auto scope = std::make_shared<Scope>();
  budget_.spend(info.names.size() * sizeof(Value));
  scope->slots.resize(info.names.size());
  if (parent != nullptr) scope->parent = parent->shared_from_this();
  return scope;
}

void Interpreter::enter(const ScopeInfo& info, Scope& scope) {
  for (std::size_t slot = 0; slot < info.loads.size(); ++slot) {
    const VariableLoad& load = info.loads[slot];
    switch (load.from) {
      case VariableLoad::From::kParameter:
        break;
      case VariableLoad::From::kContext:
        scope.slots[slot] = lookup(info.names[slot]);
        break;
      case VariableLoad::From::kOuter:
        scope.slots[slot] = scope.outer(load.hops).slots[static_cast<std::size_t>(load.slot)];
        break;
      case VariableLoad::From::kNothing:
        scope.slots[slot] = Value();
        break;
    }
  }
}

void Interpreter::keep(std::shared_ptr<Scope> scope) {
  kept_.push_back(std::move(scope));
}

Value Interpreter::lookup(const std::string& name) {
  for (const auto& [known, value] : block_variables_)
    if (known == name) return value;
  // Only blocks ask for names that the root scope has.
  const auto& names = template_.scope.names;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end() && root_) {
    const Value& value = root_->slots[static_cast<std::size_t>(found - names.begin())];
    if (!value.is_missing()) return value;
  }
  if (const Value* value = variables_->find(std::string_view(name))) return *value;
  return find_global(name);
}

Interpreter::Flow Interpreter::execute(const Body& body, Scope& scope) {
  for (const StmtPtr& statement : body)
    if (const Flow flow = execute(*statement, scope); flow != Flow::kNormal) return flow;
  return Flow::kNormal;
}

void Interpreter::write(const Value& value) {
  const std::size_t before = out_->size();
  if (value.is_string()) {
    out_->append(value.text());
  } else {
    out_->append(to_text(value, budget_));
  }
  budget_.limit(out_->size());
  budget_.spend(out_->size() - before);
}

Interpreter::Flow Interpreter::execute(const Stmt& statement, Scope& scope) {
  const Depth depth(*this);
  line_ = statement.line;
  budget_.step();
  switch (statement.kind) {
    case StmtKind::kData:
      write(statement.value);
      return Flow::kNormal;
    case StmtKind::kOutput:
      for (const ExprPtr& expr : statement.exprs) write(evaluate(*expr, scope));
      return Flow::kNormal;
    case StmtKind::kFor:
      return execute_for(statement, scope);
    case StmtKind::kIf:
      return execute_if(statement, scope);
    case StmtKind::kSet:
      assign(*statement.target, evaluate(*statement.exprs[0], scope), scope);
      return Flow::kNormal;
    case StmtKind::kMacro:
      scope.outer(statement.hops).slots[static_cast<std::size_t>(statement.slot)] = make_macro(statement, scope);
      return Flow::kNormal;
    case StmtKind::kCallBlock: {
      const Value caller = make_macro(statement, scope);
      write(evaluate_call(*statement.exprs[0], scope, &caller));
      return Flow::kNormal;
    }
    case StmtKind::kSetBlock:
    case StmtKind::kFilterBlock:
      return execute_captured(statement, scope);
    case StmtKind::kWith:
      return execute_with(statement, scope);
    case StmtKind::kScope:
      return execute_scope(statement, scope);
    case StmtKind::kBlock:
      execute_block(statement, scope);
      return Flow::kNormal;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kUnsupported:
      raise("{{% {} %}} is not possible: a chat template stands alone, there are no other templates to load",
            statement.name);
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute_if(const Stmt& statement, Scope& scope) {
  for (std::size_t i = 0; i < statement.branches.size(); ++i)
    if (truth(evaluate(*statement.exprs[i], scope))) return execute(statement.branches[i], scope);
  return execute(statement.else_body, scope);
}

Interpreter::Flow Interpreter::execute_for(const Stmt& statement, Scope& scope) {
  const Value iterable = evaluate(*statement.iterable, scope);
  if (!statement.recursive) return loop_over(statement, scope, iterable, 0);
  write(run_recursive(statement, scope, iterable, 0));
  return Flow::kNormal;
}

Value Interpreter::run_recursive(const Stmt& statement, Scope& outer, const Value& iterable, int depth0) {
  const CallDepth depth(*this);
  Capture capture(*this);
  loop_over(statement, outer, iterable, depth0);
  return Value::string(capture.take());
}

Interpreter::Flow Interpreter::loop_over(const Stmt& statement, Scope& outer, const Value& iterable, int depth0) {
  auto loop = std::make_shared<LoopObject>();
  const LoopEnd release{*loop};
  loop->items = iterate(iterable);
  loop->depth0 = depth0;
  if (statement.test) {
    auto filter = std::make_shared<LoopFilter>();
    filter->source = std::move(loop->items);
    filter->accepts = [this, &statement, &outer](const Value& item) {
      ScopeHolder test(*this, statement.test_scope, outer);
      assign(*statement.target, item, test.start());
      return truth(evaluate(*statement.test, test.scope()));
    };
    loop->items = std::move(filter);
  } else {
    loop->known_length = length_of(iterable);
  }
  if (statement.recursive) {
    loop->recursive = &statement;
    loop->scope = outer.shared_from_this();
  }
  // Jinja's rule for else: no iteration came to the end of the body, be it for lack of items or because of continue or
  // break.
  bool completed = false;
  ScopeHolder holder(*this, statement.scope, outer);
  for (Value item; loop->next(*this, item);) {
    budget_.step();
    Scope& scope = holder.start();
    assign(*statement.target, item, scope);
    if (statement.loop_slot >= 0)
      scope.slots[static_cast<std::size_t>(statement.loop_slot)] = Value::object(Kind::kLoop, loop);
    const Flow flow = execute(statement.body, scope);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  if (completed || statement.else_body.empty()) return Flow::kNormal;
  ScopeHolder rest(*this, statement.else_scope, outer);
  return execute(statement.else_body, rest.start());
}

Interpreter::Flow Interpreter::execute_captured(const Stmt& statement, Scope& scope) {
  ScopeHolder holder(*this, statement.scope, scope);
  Scope& inner = holder.start();
  Capture capture(*this);
  if (const Flow flow = execute(statement.body, inner); flow != Flow::kNormal) return flow;
  Value value = Value::string(capture.take());
  if (statement.filter) value = evaluate_filter(*statement.filter, std::move(value), inner);
  if (statement.kind == StmtKind::kSetBlock) {
    assign(*statement.target, value, scope);
  } else {
    write(value);
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute_with(const Stmt& statement, Scope& scope) {
  ScopeHolder holder(*this, statement.scope, scope);
  Scope& inner = holder.start();
  for (std::size_t i = 0; i < statement.targets.size(); ++i)
    assign(*statement.targets[i], evaluate(*statement.exprs[i], scope), inner);
  return execute(statement.body, inner);
}

Interpreter::Flow Interpreter::execute_scope(const Stmt& statement, Scope& scope) {
  ScopeHolder holder(*this, statement.scope, scope);
  Scope& inner = holder.start();
  for (const ExprPtr& escape : statement.exprs)
    if (truth(evaluate(*escape, inner)))
      raise("{{% autoescape true %}} is not supported: chat templates make plain text; use the filter escape");
  return execute(statement.body, inner);
}

void Interpreter::execute_block(const Stmt& statement, Scope& scope) {
  std::vector<std::pair<std::string, Value>> variables;
  for (const auto& [name, place] : statement.visible) {
    const Value& value = scope.outer(place.first).slots[static_cast<std::size_t>(place.second)];
    if (!value.is_missing()) variables.emplace_back(name, value);
  }
  const CallDepth depth(*this);
  std::swap(block_variables_, variables);
  auto inner = new_scope(statement.scope, nullptr);
  enter(statement.scope, *inner);
  execute(statement.body, *inner);
  keep(std::move(inner));
  std::swap(block_variables_, variables);
}

void Interpreter::unpack(const Expr& target, const Value& value, Scope& scope) {
  if (value.is_undefined() || !is_iterable(value)) {
    if (value.is_undefined()) {
      raise("not enough values to unpack (expected {}, got 0)", target.items.size());
    }
    raise("cannot unpack non-iterable {} object", type_name(value));
  }
  const auto items = iterate(value);
  std::vector<Value> values;
  for (Value item; values.size() <= target.items.size() && items->next(*this, item);) values.push_back(item);
  if (values.size() < target.items.size())
    raise("not enough values to unpack (expected {}, got {})", target.items.size(), values.size());
  if (values.size() > target.items.size()) raise("too many values to unpack (expected {})", target.items.size());
  for (std::size_t i = 0; i < values.size(); ++i) assign(*target.items[i], values[i], scope);
}

void Interpreter::assign(const Expr& target, const Value& value, Scope& scope) {
  if (target.kind == ExprKind::kTuple) return unpack(target, value, scope);
  Value& variable = scope.outer(target.hops).slots[static_cast<std::size_t>(target.slot)];
  if (target.kind == ExprKind::kName) {
    variable = value;
    return;
  }
  if (!variable.is(Kind::kNamespace)) raise("cannot assign attribute on non-namespace object");
  refuse_private_attribute(target.value.bytes());
  add_entry(*variable.name_space().attributes, target.value, value, budget_);
}

Value Interpreter::make_namespace(std::shared_ptr<DictObject> attributes) {
  auto made = std::make_shared<NamespaceObject>();
  made->attributes = std::move(attributes);
  budget_.spend(sizeof(NamespaceObject) + sizeof(DictObject));
  namespaces_.push_back(made);
  return Value::object(Kind::kNamespace, std::move(made));
}

Value Interpreter::make_macro(const Stmt& definition, Scope& scope) {
  auto macro = std::make_shared<MacroObject>();
  macro->definition = &definition;
  macro->scope = scope.shared_from_this();
  return Value::object(Kind::kMacro, std::move(macro));
}

Value Interpreter::call_macro(const MacroObject& macro, Args args) {
  const CallDepth depth(*this);
  const int line = line_;
  const Stmt& definition = *macro.definition;
  ScopeHolder holder(*this, definition.scope, *macro.scope);
  Scope& scope = holder.start();
  const std::size_t given = std::min(args.positional.size(), definition.parameters.size());
  bool found_caller = false;
  for (std::size_t i = 0; i < definition.parameters.size(); ++i) {
    const Parameter& parameter = definition.parameters[i];
    found_caller = found_caller || parameter.name == "caller";
    Value& slot = scope.slots[static_cast<std::size_t>(parameter.slot)];
    if (i < given) {
      slot = args.positional[i];
      continue;
    }
    const auto named = std::find_if(args.named.begin(), args.named.end(),
                                    [&](const auto& arg) { return arg.first == parameter.name; });
    if (named == args.named.end()) continue;
    slot = named->second;
    args.named.erase(named);
  }
  bind_special(macro, args, found_caller, scope);
  for (const Parameter& parameter : definition.parameters) {
    Value& slot = scope.slots[static_cast<std::size_t>(parameter.slot)];
    if (!slot.is_missing()) continue;
    Value value = parameter.fallback ? evaluate(*parameter.fallback, scope)
                                     : Value::undefined(fmt::format("parameter '{}' was not provided", parameter.name));
    slot = std::move(value);
  }
  Capture capture(*this);
  execute(definition.body, scope);
  line_ = line;
  return Value::string(capture.take());
}

// caller, kwargs and varargs, and errors for arguments that the macro does not take.
void Interpreter::bind_special(const MacroObject& macro, Args& args, bool found_caller, Scope& scope) {
  const Stmt& definition = *macro.definition;
  const auto caller =
      std::find_if(args.named.begin(), args.named.end(), [](const auto& arg) { return arg.first == "caller"; });
  if (definition.caller_slot >= 0 && !found_caller) {
    Value& slot = scope.slots[static_cast<std::size_t>(definition.caller_slot)];
    if (caller == args.named.end() || caller->second.is_none()) {
      slot = Value::undefined("No caller defined");
    } else {
      slot = caller->second;
    }
    if (caller != args.named.end()) args.named.erase(caller);
  }
  const std::string label = definition.kind == StmtKind::kMacro ? "'" + definition.name + "'" : "None";
  if (definition.kwargs_slot >= 0) {
    auto kwargs = std::make_shared<DictObject>();
    for (auto& [name, value] : args.named) add_entry(*kwargs, Value::string(name), value, budget_);
    scope.slots[static_cast<std::size_t>(definition.kwargs_slot)] = make_dict(std::move(kwargs));
  } else if (!args.named.empty()) {
    if (args.named.front().first == "caller")
      raise("macro {} was invoked with two values for the special caller argument. This is most likely a bug.", label);
    raise("macro {} takes no keyword argument '{}'", label, args.named.front().first);
  }
  const std::size_t taken = std::min(args.positional.size(), definition.parameters.size());
  if (definition.varargs_slot >= 0) {
    scope.slots[static_cast<std::size_t>(definition.varargs_slot)] =
        make_tuple({args.positional.begin() + static_cast<std::ptrdiff_t>(taken), args.positional.end()}, budget_);
  } else if (args.positional.size() > taken) {
    raise("macro {} takes not more than {} argument(s)", label, definition.parameters.size());
  }
}

Value Interpreter::call(const Value& callee, Args args) {
  const Depth depth(*this);
  budget_.step();
  switch (callee.kind()) {
    case Kind::kMacro:
      return call_macro(macro_of(callee), std::move(args));
    case Kind::kFunction:
      return callee.function().call(*this, args);
    case Kind::kMethod:
      return callee.method().call(*this, callee.method().self, args);
    case Kind::kLoop: {
      const LoopObject& loop = loop_of(callee);
      if (loop.recursive == nullptr) raise("The loop must have the 'recursive' marker to be called recursively.");
      const Bound bound("loop", args, {"iterable"}, 1);
      return run_recursive(*loop.recursive, *loop.scope, bound.at(0), loop.depth0 + 1);
    }
    case Kind::kJoiner: {
      JoinerObject& joiner = callee.joiner();
      return std::exchange(joiner.used, true) ? joiner.separator : Value::string("");
    }
    default:
      require_defined(callee);
      raise("'{}' object is not callable", type_name(callee));
  }
}

Value Interpreter::call_filter(std::string_view name, const Value& value, const Args& args) {
  const Depth depth(*this);
  budget_.step();
  const Filter* filter = find_filter(name);
  if (filter == nullptr) raise("No filter named '{}'.", name);
  return filter->call(*this, value, args);
}

bool Interpreter::call_test(std::string_view name, const Value& value, const Args& args) {
  const Depth depth(*this);
  budget_.step();
  const Test* test = find_test(name);
  if (test == nullptr) raise("No test named '{}'.", name);
  return test->call(*this, value, args);
}

}  // namespace weir::text::jinja
