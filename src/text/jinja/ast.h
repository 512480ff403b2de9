// The syntax tree of a template. The parser makes it, the resolver (scopes.h) fills in where each name lives, the
// interpreter reads it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace weir::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind {
  kConst,         // value
  kName,          // name, at (hops, slot)
  kNamespaceRef,  // name.attribute as the target of an assignment; value is the attribute's name
  kTuple,         // items
  kList,          // items
  kDict,          // items: key, value, key, value ...
  kAttribute,     // items[0].name
  kItem,          // items[0][items[1]]
  kSlice,         // items[0][items[1]:items[2]:items[3]], bounds may be null
  kCall,          // items[0](call)
  kFilter,        // items[0]|name(call); items[0] is null in {% filter %} and {% set %} blocks
  kTest,          // items[0] is name(call)
  kConditional,   // items[0] if items[1] else items[2], which may be null
  kAnd,
  kOr,
  kNot,
  kNegate,
  kPlus,
  kBinary,   // items[0] op items[1]
  kConcat,   // items joined by ~
  kCompare,  // items[0] compare[0] items[1] compare[1] items[2] ...
};

enum class BinaryOp { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class CompareOp { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;
};

struct Filter;
struct Test;

struct Expr {
  Expr(ExprKind k, int l) : kind(k), line(l) {}

  ExprKind kind;
  int line;
  int height = 1;
  BinaryOp op = BinaryOp::kAdd;
  int hops = 0, slot = 0;  // kName, kNamespaceRef: so many scopes outwards, there this slot
  std::string name;
  Value value;
  std::vector<ExprPtr> items;
  std::vector<CompareOp> compare;
  std::unique_ptr<CallArgs> call;
  const Filter* filter = nullptr;  // null: unknown, an error when it is reached
  const Test* test = nullptr;
};

// How a variable of a scope begins.
struct VariableLoad {
  enum class From { kParameter, kContext, kOuter, kNothing };
  From from = From::kNothing;
  int hops = 0, slot = 0;  // kOuter
};

struct ScopeInfo {
  std::vector<std::string> names;  // by slot
  std::vector<VariableLoad> loads;
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

enum class StmtKind {
  kData,      // value
  kOutput,    // exprs
  kFor,       // target in iterable if test; body, else_body
  kIf,        // exprs[i] ? branches[i]; else_body
  kSet,       // target = exprs[0]
  kSetBlock,  // target = body, through filter
  kMacro,
  kCallBlock,    // exprs[0] is the call, body the caller
  kFilterBlock,  // body through filter
  kWith,         // targets = exprs in body
  kScope,        // body in a scope of its own: {% generation %}, {% autoescape false %}
  kBlock,        // {% block %}: body in a fresh scope
  kBreak,
  kContinue,
  kUnsupported,  // name: include, import, extends ... An error when it is reached.
};

struct Parameter {
  std::string name;
  ExprPtr fallback;  // may be null
  int slot = 0;
};

struct Stmt {
  Stmt(StmtKind k, int l) : kind(k), line(l) {}

  StmtKind kind;
  int line;
  std::string name;
  Value value;
  ExprPtr target, iterable, test, filter;
  std::vector<ExprPtr> exprs;
  std::vector<ExprPtr> targets;
  Body body, else_body;
  std::vector<Body> branches;
  bool recursive = false, scoped = false;

  // Macros and call blocks. The slots of the special parameters are -1 where the body does not use them.
  std::vector<Parameter> parameters;
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;
  int loop_slot = -1;      // kFor
  int hops = 0, slot = 0;  // kMacro: where the macro is stored

  ScopeInfo scope, test_scope, else_scope;
  // kBlock, scoped: the variables it sees, as (name, hops, slot).
  std::vector<std::pair<std::string, std::pair<int, int>>> visible;
};

// Parsed and resolved; immutable.
struct Template {
  Body body;
  ScopeInfo scope;
  std::string source;
};

}  // namespace weir::text::jinja
