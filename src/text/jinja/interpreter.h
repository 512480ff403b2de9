// Interpreter: one rendering of a template. Used once, by one thread.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/value.h"

namespace weir::text::jinja {

class Interpreter {
 public:
  // `variables` win over the globals every template has. The template outlives this.
  Interpreter(const Template& source, std::shared_ptr<DictObject> variables, const Budget& budget, const std::tm& now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Raises TemplateError; line() then says where the template stood.
  Text run();
  int line() const { return line_; }

  // For filters, tests, methods and functions.
  Budget& budget() { return budget_; }
  const std::tm& now() const { return now_; }
  Value call(const Value& callee, Args args);
  Value call_filter(std::string_view name, const Value& value, const Args& args);
  bool call_test(std::string_view name, const Value& value, const Args& args);
  // object.name and object[key] with the sandbox's rules; undefined where there is nothing.
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  // Raises for what cannot be iterated.
  std::shared_ptr<IteratorObject> iterate(const Value& value);
  std::vector<Value> to_items(const Value& value);
  Value make_namespace(std::shared_ptr<DictObject> attributes);

 private:
  friend class LoopTest;
  enum class Flow { kNormal, kBreak, kContinue };
  class Depth;
  class CallDepth;
  class Capture;
  class ScopeHolder;

  Flow execute(const Body& body, Scope& scope);
  Flow execute(const Stmt& statement, Scope& scope);
  Flow execute_if(const Stmt& statement, Scope& scope);
  Flow execute_for(const Stmt& statement, Scope& scope);
  Flow loop_over(const Stmt& statement, Scope& outer, const Value& iterable, int depth0);
  Value run_recursive(const Stmt& statement, Scope& outer, const Value& iterable, int depth0);
  Flow execute_captured(const Stmt& statement, Scope& scope);
  Flow execute_with(const Stmt& statement, Scope& scope);
  Flow execute_scope(const Stmt& statement, Scope& scope);
  void execute_block(const Stmt& statement, Scope& scope);
  void write(const Value& value);

  std::shared_ptr<Scope> new_scope(const ScopeInfo& info, Scope* parent);
  void enter(const ScopeInfo& info, Scope& scope);
  void keep(std::shared_ptr<Scope> scope);  // somebody still refers to a scope that has ended
  Value lookup(const std::string& name);
  void assign(const Expr& target, const Value& value, Scope& scope);
  void unpack(const Expr& target, const Value& value, Scope& scope);
  Value make_macro(const Stmt& definition, Scope& scope);
  Value call_macro(const MacroObject& macro, Args args);
  void bind_special(const MacroObject& macro, Args& args, bool found_caller, Scope& scope);

  Value evaluate(const Expr& expr, Scope& scope);
  Value evaluate_name(const Expr& expr, Scope& scope);
  Value evaluate_container(const Expr& expr, Scope& scope);
  Value evaluate_slice(const Expr& expr, Scope& scope);
  Value evaluate_concat(const Expr& expr, Scope& scope);
  bool evaluate_compare(const Expr& expr, Scope& scope);
  Value evaluate_filter(const Expr& expr, Value input, Scope& scope);
  Value evaluate_call(const Expr& expr, Scope& scope, const Value* caller);
  Args evaluate_args(const CallArgs& call, Scope& scope);

  const Template& template_;
  std::shared_ptr<DictObject> variables_;
  Budget budget_;
  std::tm now_;
  std::shared_ptr<Scope> root_;
  TextBuilder* out_ = nullptr;
  int line_ = 0, depth_ = 0, call_depth_ = 0;
  std::vector<std::pair<std::string, Value>> block_variables_;  // what a scoped block sees of the loops around it
  std::vector<std::shared_ptr<NamespaceObject>> namespaces_;
  std::vector<std::shared_ptr<Scope>> kept_;
};

}  // namespace weir::text::jinja
