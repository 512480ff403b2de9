// Small guards of the interpreter: what they begin ends with them, also when an error passes through.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "text/jinja/interpreter.h"

namespace weir::text::jinja {

// Bounds nested evaluation, and with it the stack.
class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& in) : in_(in) {
    if (++in_.depth_ > kMaxEvalDepth) [[unlikely]] {
      --in_.depth_;
      raise("the template nests more than {} evaluations", kMaxEvalDepth);
    }
  }
  ~Depth() { --in_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Interpreter& in_;
};

class Interpreter::CallDepth {
 public:
  explicit CallDepth(Interpreter& in) : in_(in) {
    if (++in_.call_depth_ > kMaxCallDepth) [[unlikely]] {
      --in_.call_depth_;
      raise("macros or loops call each other more than {} levels deep", kMaxCallDepth);
    }
  }
  ~CallDepth() { --in_.call_depth_; }
  CallDepth(const CallDepth&) = delete;
  CallDepth& operator=(const CallDepth&) = delete;

 private:
  Interpreter& in_;
};

// Output goes here instead of into the rendering.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& in) : in_(in), outer_(std::exchange(in.out_, &buffer_)) {}
  ~Capture() { in_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Text take() {
    in_.out_ = outer_;
    return buffer_.take();
  }

 private:
  Interpreter& in_;
  TextBuilder buffer_;
  TextBuilder* outer_;
};

// A scope that is started afresh for each iteration and emptied at the end, unless a macro has kept it.
class Interpreter::ScopeHolder {
 public:
  ScopeHolder(Interpreter& in, const ScopeInfo& info, Scope& parent)
      : in_(in), info_(info), scope_(in.new_scope(info, &parent)) {}
  ~ScopeHolder() { end(); }
  ScopeHolder(const ScopeHolder&) = delete;
  ScopeHolder& operator=(const ScopeHolder&) = delete;

  Scope& start() {
    if (scope_.use_count() > 1) {
      auto next = in_.new_scope(info_, scope_->parent.get());
      end();
      scope_ = std::move(next);
    } else {
      for (Value& slot : scope_->slots) slot = Value();
    }
    in_.enter(info_, *scope_);
    return *scope_;
  }
  Scope& scope() { return *scope_; }

 private:
  void end() {
    if (scope_.use_count() > 1) {
      in_.keep(scope_);
    } else {
      scope_->slots.clear();
    }
  }

  Interpreter& in_;
  const ScopeInfo& info_;
  std::shared_ptr<Scope> scope_;
};

// A loop that has ended holds on to nothing, so that loops kept in variables cannot form chains.
struct LoopEnd {
  LoopObject& loop;
  ~LoopEnd() { loop.release(); }
};

// Jinja's iter(): all containers and the undefined value.
inline bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
    case Kind::kIterator:
      return true;
    default:
      return false;
  }
}

// transformers refuses private names on namespaces, where they would shadow Python's own.
inline void refuse_private_attribute(std::string_view name) {
  if (name.starts_with('_'))
    raise(
        "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '{}'. Please rename the "
        "attribute.",
        name);
}

}  // namespace weir::text::jinja
