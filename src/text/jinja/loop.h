// What exists only while a template runs: scopes, loops, macros.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace weir::text::jinja {

// The variables of one frame. A macro keeps the scope it was defined in.
struct Scope : std::enable_shared_from_this<Scope> {
  std::vector<Value> slots;
  std::shared_ptr<Scope> parent;

  Scope& outer(int hops) {
    Scope* scope = this;
    for (; hops > 0; --hops) scope = scope->parent.get();
    return *scope;
  }
};

struct MacroObject : Object {
  const Stmt* definition = nullptr;  // of a macro or a call block
  std::shared_ptr<Scope> scope;
};

// The variable `loop`. It walks through its items lazily, as Jinja does: a filter may depend on what the body did.
struct LoopObject : Object {
  std::shared_ptr<IteratorObject> items;
  std::optional<std::size_t> known_length;
  std::int64_t index0 = -1;
  int depth0 = 0;
  Value before, current, after;  // `after` is set once it has been looked at
  std::optional<std::vector<Value>> last_changed;
  const Stmt* recursive = nullptr;  // the loop to run when it is called
  std::shared_ptr<Scope> scope;     // around that loop

  bool next(Interpreter& in, Value& out);
  const Value& peek(Interpreter& in);  // missing: this is the last item
  std::size_t length(Interpreter& in);
  void release();  // what the loop held; it can still be asked for its numbers
};

inline const MacroObject& macro_of(const Value& value) {
  return static_cast<const MacroObject&>(*value.object());
}
inline LoopObject& loop_of(const Value& value) {
  return static_cast<LoopObject&>(*value.object());
}
std::string macro_label(const Value& macro);

}  // namespace weir::text::jinja
