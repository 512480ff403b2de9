#include "text/jinja/scopes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "text/jinja/symbols.h"

namespace weir::text::jinja {

namespace {

class Resolver {
 public:
  void run(Template& parsed) {
    Symbols root(nullptr, &parsed.scope, &work_);
    root.collect(parsed.body);
    walk(parsed.body, {&root, false, false});
    root.finish();
  }

 private:
  struct Frame {
    Symbols* symbols;
    bool soft;  // inside a condition: unknown filters are errors only when they are reached
    bool in_loop;
  };

  void walk(const Body& body, Frame frame) {
    for (const StmtPtr& statement : body) walk(*statement, frame);
  }

  void walk(Stmt& statement, Frame frame) {
    switch (statement.kind) {
      case StmtKind::kData:
      case StmtKind::kBreak:
      case StmtKind::kContinue:
      case StmtKind::kUnsupported:
        return;
      case StmtKind::kOutput:
        return expressions(statement.exprs, frame);
      case StmtKind::kSet:
        expressions(statement.exprs, frame);
        return target(*statement.target, frame);
      case StmtKind::kIf:
        frame.soft = true;
        expressions(statement.exprs, frame);
        for (const Body& branch : statement.branches) walk(branch, frame);
        return walk(statement.else_body, frame);
      case StmtKind::kFor:
        return for_loop(statement, frame);
      case StmtKind::kMacro:
        std::tie(statement.hops, statement.slot) = frame.symbols->ref(statement.name);
        return macro_body(statement, frame);
      case StmtKind::kCallBlock:
        expressions(statement.exprs, frame);
        return macro_body(statement, frame);
      case StmtKind::kSetBlock:
      case StmtKind::kFilterBlock:
        return captured(statement, frame);
      case StmtKind::kWith:
        return with_block(statement, frame);
      case StmtKind::kScope:
        return plain_scope(statement, frame);
      case StmtKind::kBlock:
        return block(statement, frame);
    }
  }

  void for_loop(Stmt& loop, Frame frame) {
    expression(*loop.iterable, frame);
    // The targets come first in both scopes, so that they have the same slots in both.
    Symbols body(frame.symbols, &loop.scope, &work_);
    body.declare_targets(*loop.target);
    if (uses(loop.body, "loop")) loop.loop_slot = body.declare("loop");
    body.collect(loop.body);
    if (loop.test) {
      Symbols test(frame.symbols, &loop.test_scope, &work_);
      test.declare_targets(*loop.target);
      test.collect(*loop.test);
      expression(*loop.test, {&test, false, false});
      test.finish();
    }
    const Frame inner{&body, false, true};
    target(*loop.target, inner);
    walk(loop.body, inner);
    body.finish();
    Symbols rest(frame.symbols, &loop.else_scope, &work_);
    rest.collect(loop.else_body);
    walk(loop.else_body, {&rest, false, true});
    rest.finish();
  }

  void macro_body(Stmt& macro, Frame frame) {
    Symbols body(frame.symbols, &macro.scope, &work_);
    bool explicit_caller = false;
    for (Parameter& parameter : macro.parameters) {
      parameter.slot = body.declare(parameter.name);
      explicit_caller = explicit_caller || parameter.name == "caller";
    }
    for (const Parameter& parameter : macro.parameters)
      if (parameter.fallback) body.collect(*parameter.fallback);
    body.collect(macro.body);
    const auto special = [&](std::string_view name) {
      const bool declared = std::any_of(macro.parameters.begin(), macro.parameters.end(),
                                        [&](const Parameter& parameter) { return parameter.name == name; });
      return !declared && uses(macro.body, name) ? body.declare(std::string(name)) : -1;
    };
    macro.caller_slot = special("caller");
    macro.kwargs_slot = special("kwargs");
    macro.varargs_slot = special("varargs");
    if (explicit_caller) require_caller_default(macro);
    const Frame inner{&body, false, frame.in_loop};
    for (const Parameter& parameter : macro.parameters)
      if (parameter.fallback) expression(*parameter.fallback, inner);
    walk(macro.body, inner);
    body.finish();
  }

  static void require_caller_default(const Stmt& macro) {
    for (const Parameter& parameter : macro.parameters)
      if (parameter.name == "caller" && !parameter.fallback && uses(macro.body, "caller"))
        raise_at(macro.line,
                 "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a "
                 "default.");
  }

  void captured(Stmt& statement, Frame frame) {
    Symbols body(frame.symbols, &statement.scope, &work_);
    body.collect(statement.body);
    if (statement.filter) body.collect(*statement.filter);
    const Frame inner{&body, false, frame.in_loop};
    walk(statement.body, inner);
    if (statement.filter) expression(*statement.filter, inner);
    body.finish();
    if (statement.target) target(*statement.target, frame);
  }

  void with_block(Stmt& statement, Frame frame) {
    expressions(statement.exprs, frame);
    Symbols body(frame.symbols, &statement.scope, &work_);
    for (const ExprPtr& declared : statement.targets) body.declare_targets(*declared);
    body.collect(statement.body);
    const Frame inner{&body, false, frame.in_loop};
    for (const ExprPtr& declared : statement.targets) name_targets(*declared, inner);
    walk(statement.body, inner);
    body.finish();
  }

  void plain_scope(Stmt& statement, Frame frame) {
    Symbols body(frame.symbols, &statement.scope, &work_);
    for (const ExprPtr& option : statement.exprs) body.collect(*option);
    body.collect(statement.body);
    const Frame inner{&body, false, frame.in_loop};
    expressions(statement.exprs, inner);
    walk(statement.body, inner);
    body.finish();
  }

  void block(Stmt& statement, Frame frame) {
    if (statement.scoped) statement.visible = frame.symbols->visible_stores();
    Symbols body(nullptr, &statement.scope, &work_);
    body.collect(statement.body);
    walk(statement.body, {&body, false, frame.in_loop});
    body.finish();
  }

  void target(Expr& expr, Frame frame) {
    if (frame.in_loop) refuse_loop(expr);
    name_targets(expr, frame);
  }

  static void refuse_loop(const Expr& expr) {
    if (expr.kind == ExprKind::kName && expr.name == "loop")
      raise_at(expr.line, "Can't assign to special loop variable in for-loop target");
    for (const ExprPtr& item : expr.items) refuse_loop(*item);
  }

  void name_targets(Expr& expr, Frame frame) {
    if (expr.kind == ExprKind::kTuple) {
      for (const ExprPtr& item : expr.items) name_targets(*item, frame);
    } else {
      std::tie(expr.hops, expr.slot) = frame.symbols->ref(expr.name);
    }
  }

  void expressions(const std::vector<ExprPtr>& list, Frame frame) {
    for (const ExprPtr& expr : list) expression(*expr, frame);
  }

  void expression(Expr& expr, Frame frame) {
    if (expr.kind == ExprKind::kName) std::tie(expr.hops, expr.slot) = frame.symbols->ref(expr.name);
    if (expr.kind == ExprKind::kConditional) frame.soft = true;
    if (expr.kind == ExprKind::kFilter && expr.filter == nullptr && !frame.soft)
      raise_at(expr.line, "No filter named '{}'.", expr.name);
    if (expr.kind == ExprKind::kTest && expr.test == nullptr && !frame.soft)
      raise_at(expr.line, "No test named '{}'.", expr.name);
    for (const ExprPtr& item : expr.items)
      if (item) expression(*item, frame);
    if (!expr.call) return;
    expressions(expr.call->positional, frame);
    for (const auto& [name, value] : expr.call->named) expression(*value, frame);
    if (expr.call->star) expression(*expr.call->star, frame);
    if (expr.call->double_star) expression(*expr.call->double_star, frame);
  }

  std::size_t work_ = 0;
};

}  // namespace

void resolve_scopes(Template& parsed) {
  Resolver().run(parsed);
}

}  // namespace weir::text::jinja
