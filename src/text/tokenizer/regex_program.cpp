#include "text/tokenizer/regex_program.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weir::text {
namespace {

using Kind = RegexNode::Kind;
using Op = RegexInstr::Op;

// The work per character of text is bounded by the program's size; patterns in use have some 200 instructions.
constexpr std::size_t kMaxInstructions = 8192;
constexpr std::uint32_t kMaxLookBehind = 255;  // characters

struct CompileError {
  const char* what;
};

// Characters that a node matches, if that is one number.
std::optional<std::uint64_t> fixed_length(const RegexNode& node) {
  switch (node.kind) {
    case Kind::kSet:
      return 1;
    case Kind::kEmpty:
    case Kind::kLook:
    case Kind::kAnchor:
      return 0;
    case Kind::kAtomic:
      return fixed_length(*node.children[0]);
    case Kind::kConcat: {
      std::uint64_t sum = 0;
      for (const auto& child : node.children) {
        const auto length = fixed_length(*child);
        if (!length) return std::nullopt;
        sum += *length;
      }
      return sum;
    }
    case Kind::kAlternate: {
      const auto first = fixed_length(*node.children[0]);
      for (const auto& child : node.children) {
        if (fixed_length(*child) != first) return std::nullopt;
      }
      return first;
    }
    case Kind::kRepeat: {
      const auto once = fixed_length(*node.children[0]);
      if (!once || (node.min != node.max && *once != 0)) return std::nullopt;
      return *once * node.min;
    }
  }
  return std::nullopt;
}

class Compiler {
 public:
  explicit Compiler(RegexProgram& program) : program_(program) {}

  // Bodies are compiled one after the other: those found inside one wait in a queue.
  void run(const RegexNode& root) {
    add_body(RegexBody::Kind::kMain, root, 0);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      body_ = i;
      program_.bodies[i].start = here();
      emit_node(*queue_[i], true);
      put({Op::kEnd});
    }
  }

 private:
  std::uint32_t here() const { return static_cast<std::uint32_t>(program_.code.size()); }

  std::uint32_t put(RegexInstr instr) {
    if (program_.code.size() >= kMaxInstructions) throw CompileError{"more steps than weir allows"};
    program_.code.push_back(instr);
    return here() - 1;
  }

  std::uint32_t put_split() { return put({Op::kSplit, 0, 0, program_.bodies[body_].splits++}); }

  std::uint32_t add_body(RegexBody::Kind kind, const RegexNode& node, std::uint32_t back) {
    program_.bodies.push_back({.kind = kind, .start = 0, .splits = 0, .back = back});
    queue_.push_back(&node);
    return static_cast<std::uint32_t>(queue_.size() - 1);
  }

  // `last`: nothing of the body follows, so the first way to match is the one that counts.
  void emit_node(const RegexNode& node, bool last) {
    // Repetitions of nothing emit no instruction that could be counted.
    if (++nodes_emitted_ > 16 * kMaxInstructions) throw CompileError{"more steps than weir allows"};
    switch (node.kind) {
      case Kind::kEmpty:
        return;
      case Kind::kSet: {
        const auto single = program_.sets[node.set].single();
        if (single) {
          put({Op::kChar, static_cast<std::uint32_t>(*single)});
        } else {
          put({Op::kSet, node.set});
        }
        return;
      }
      case Kind::kConcat:
        for (std::size_t i = 0; i < node.children.size(); ++i) {
          emit_node(*node.children[i], last && i + 1 == node.children.size());
        }
        return;
      case Kind::kAlternate:
        return emit_alternatives(node, last);
      case Kind::kRepeat:
        return emit_repeat(node, last);
      case Kind::kLook:
        return emit_look(node);
      case Kind::kAtomic:
        return emit_atomic(node, last);
      case Kind::kAnchor:
        put({Op::kAnchor, static_cast<std::uint32_t>(node.anchor)});
        return;
    }
  }

  void emit_alternatives(const RegexNode& node, bool last) {
    std::vector<std::uint32_t> ends;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const bool more = i + 1 < node.children.size();
      const std::uint32_t split = more ? put_split() : 0;
      if (more) program_.code[split].a = here();
      emit_node(*node.children[i], last);
      if (!more) break;
      ends.push_back(put({Op::kJump}));
      program_.code[split].b = here();
    }
    for (const std::uint32_t end : ends) program_.code[end].a = here();
  }

  void emit_run(const RegexNode& repeat) { put({Op::kRun, repeat.children[0]->set, repeat.min, repeat.max}); }

  void emit_repeat(const RegexNode& node, bool last) {
    const RegexNode& child = *node.children[0];
    const bool of_set = child.kind == Kind::kSet;
    if (of_set && (node.min == node.max || (last && !node.lazy))) return emit_run(node);
    if (of_set && node.min > 0) {
      put({Op::kRun, child.set, node.min, node.min});
    } else {
      for (std::uint32_t i = 0; i < node.min; ++i) emit_node(child, false);
    }
    const auto fork = [&](std::uint32_t split, std::uint32_t into, std::uint32_t past) {
      program_.code[split].a = node.lazy ? past : into;
      program_.code[split].b = node.lazy ? into : past;
    };
    if (node.max == RegexNode::kUnbounded) {
      const std::uint32_t split = put_split();
      emit_node(child, false);
      put({Op::kJump, split});
      fork(split, split + 1, here());
      return;
    }
    std::vector<std::uint32_t> splits;
    for (std::uint32_t i = node.min; i < node.max; ++i) {
      splits.push_back(put_split());
      emit_node(child, last && i + 1 == node.max);
    }
    for (const std::uint32_t split : splits) fork(split, split + 1, here());
  }

  void emit_look(const RegexNode& node) {
    const RegexNode& inner = *node.children[0];
    const auto negative = static_cast<std::uint32_t>(node.negative);
    if (!node.behind) {
      put({Op::kLook, add_body(RegexBody::Kind::kLook, inner, 0), negative});
      return;
    }
    std::vector<const RegexNode*> ways;
    if (inner.kind == Kind::kAlternate) {
      for (const auto& child : inner.children) ways.push_back(child.get());
    } else {
      ways.push_back(&inner);
    }
    const auto first = static_cast<std::uint32_t>(queue_.size());
    for (const RegexNode* way : ways) {
      const auto length = fixed_length(*way);
      if (!length || *length > kMaxLookBehind) throw CompileError{"a look-behind of no fixed length"};
      add_body(RegexBody::Kind::kLook, *way, static_cast<std::uint32_t>(*length));
    }
    put({Op::kLookBehind, first, negative, static_cast<std::uint32_t>(ways.size())});
  }

  void emit_atomic(const RegexNode& node, bool last) {
    const RegexNode& inner = *node.children[0];
    if (inner.kind == Kind::kRepeat && inner.children[0]->kind == Kind::kSet && !inner.lazy) return emit_run(inner);
    if (last) return emit_node(inner, true);  // nothing could go back into it
    put({Op::kAtomic, add_body(RegexBody::Kind::kAtomic, inner, 0)});
  }

  RegexProgram& program_;
  std::vector<const RegexNode*> queue_;  // by body
  std::size_t body_ = 0;
  std::size_t nodes_emitted_ = 0;
};

}  // namespace

Result<RegexProgram> compile_regex(ParsedRegex parsed) {
  RegexProgram program;
  program.sets = std::move(parsed.sets);
  program.word = CharSet::word_alone();
  program.word.seal();
  try {
    Compiler(program).run(*parsed.root);
  } catch (const CompileError& error) {
    return fail(ErrorCode::kUnsupported, "a regular expression of the tokenizer has {}", error.what);
  }
  return program;
}

}  // namespace weir::text
