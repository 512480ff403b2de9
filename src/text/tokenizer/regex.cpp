#include "text/tokenizer/regex.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "text/tokenizer/regex_program.h"
#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

using Op = RegexInstr::Op;

constexpr std::uint64_t kFixedSteps = std::uint64_t{1} << 24;  // a fraction of a second
constexpr std::uint64_t kStepsPerByte = 1024;                  // some 50 are usual
constexpr std::size_t kMaxMemoBytes = std::size_t{1} << 28;    // of one text; texts and patterns in use need a few MB
constexpr std::size_t kPagePositions = 64;

// A bit for each split of a body and each position of the text, in pages made when first touched.
class BitPlane {
 public:
  void reset(std::uint32_t splits, std::size_t text_size) {
    splits_ = splits;
    pages_.clear();
    pages_.resize(text_size / kPagePositions + 1);
  }
  bool get(std::uint32_t split, std::size_t at) const {
    const auto& page = pages_[at / kPagePositions];
    return page && (page[split] >> at % kPagePositions & 1) != 0;
  }
  // Bytes newly taken.
  std::size_t set(std::uint32_t split, std::size_t at) {
    auto& page = pages_[at / kPagePositions];
    std::size_t bytes = 0;
    if (!page) {
      page = std::make_unique<std::uint64_t[]>(splits_);
      bytes = splits_ * sizeof(std::uint64_t);
    }
    page[split] |= std::uint64_t{1} << at % kPagePositions;
    return bytes;
  }
  // Of all splits at one position.
  void clear(std::size_t at) {
    auto& page = pages_[at / kPagePositions];
    if (!page) return;
    for (std::uint32_t i = 0; i < splits_; ++i) page[i] &= ~(std::uint64_t{1} << at % kPagePositions);
  }

 private:
  std::uint32_t splits_ = 0;
  std::vector<std::unique_ptr<std::uint64_t[]>> pages_;
};

// One text's search. A split that was tried at a position and did not lead to the end of its body is not tried there
// again: bodies have no memory (no captures), so it cannot do better. What led to the end is remembered too, for bodies
// that are entered anew from position after position (look-around, atomic groups).
class Matcher {
 public:
  Matcher(const RegexProgram& program, std::string_view text)
      : program_(program), text_(text), steps_left_(kFixedSteps + kStepsPerByte * text.size()) {
    bodies_.resize(program.bodies.size());
    for (std::size_t i = 0; i < bodies_.size(); ++i) bodies_[i].tried.reset(program.bodies[i].splits, text.size());
  }

  // The end of the match that begins at `at`.
  std::optional<std::size_t> match(std::size_t at) { return run(0, at); }
  bool spent() const { return spent_; }

 private:
  struct Choice {
    std::uint32_t pc;
    std::size_t at;
    std::size_t trail;  // length of the trail to go back to
  };
  struct Mark {
    std::uint32_t split;
    std::size_t at;
  };
  struct BodyMemo {
    BitPlane tried;                                       // and not known to reach the end
    std::unordered_map<std::uint64_t, std::size_t> ends;  // (split, position) -> where the body ends from there
  };

  static std::uint64_t key(std::uint32_t split, std::size_t at) { return std::uint64_t{at} << 16 | split; }

  std::optional<std::size_t> run(std::uint32_t body, std::size_t at);
  bool step(const RegexInstr& instr, std::size_t& at);
  bool looks(const RegexInstr& instr, std::size_t at);
  bool holds(Anchor anchor, std::size_t at) const;
  bool take_run(std::size_t pc, const RegexInstr& instr, std::size_t& at);
  void remember(std::uint32_t body, std::size_t trail_base, std::size_t end);
  void forget(std::size_t choices, std::size_t trail) {
    choices_.resize(choices);
    trail_.resize(trail);
  }

  const RegexProgram& program_;
  std::string_view text_;
  std::uint64_t steps_left_;
  std::size_t memo_bytes_ = 0;
  bool spent_ = false;
  std::vector<BodyMemo> bodies_;
  struct RunEnds {
    std::size_t pc;
    std::vector<std::uint32_t> ends;  // by position: position + 1 of where the run ends, or 0
  };
  std::vector<RunEnds> run_ends_;  // of the few instructions that met long runs
  std::vector<Choice> choices_;
  std::vector<Mark> trail_;  // splits under way, of all bodies under way
};

// Recursion is as deep as the pattern nests look-around and atomic groups.
std::optional<std::size_t> Matcher::run(std::uint32_t body, std::size_t at) {
  const std::size_t choice_base = choices_.size(), trail_base = trail_.size();
  BodyMemo& memo = bodies_[body];
  const bool main = program_.bodies[body].kind == RegexBody::Kind::kMain;
  std::uint32_t pc = program_.bodies[body].start;
  for (;;) {
    if (steps_left_ == 0 || memo_bytes_ > kMaxMemoBytes) spent_ = true;
    if (spent_) {
      forget(choice_base, trail_base);
      return std::nullopt;
    }
    --steps_left_;
    const RegexInstr& instr = program_.code[pc];
    bool good = true;
    switch (instr.op) {
      case Op::kSplit:
        if (!main) {
          if (const auto known = memo.ends.find(key(instr.c, at)); known != memo.ends.end()) {
            const std::size_t end = known->second;
            remember(body, trail_base, end);
            forget(choice_base, trail_base);
            return end;
          }
        }
        good = !memo.tried.get(instr.c, at);
        if (good) {
          memo_bytes_ += memo.tried.set(instr.c, at);
          trail_.push_back({instr.c, at});
          choices_.push_back({instr.b, at, trail_.size()});
          pc = instr.a;
        }
        break;
      case Op::kJump:
        pc = instr.a;
        break;
      case Op::kEnd:
        remember(body, trail_base, at);
        forget(choice_base, trail_base);
        return at;
      case Op::kRun:
        good = take_run(pc, instr, at);
        ++pc;
        break;
      default:
        good = step(instr, at);
        ++pc;
    }
    if (good) continue;
    if (choices_.size() == choice_base) {
      trail_.resize(trail_base);
      return std::nullopt;
    }
    const Choice choice = choices_.back();
    choices_.pop_back();
    pc = choice.pc;
    at = choice.at;
    trail_.resize(choice.trail);
  }
}

bool Matcher::step(const RegexInstr& instr, std::size_t& at) {
  switch (instr.op) {
    case Op::kChar:
    case Op::kSet: {
      if (at >= text_.size()) return false;
      const Char c = char_at(text_, at);
      if (instr.op == Op::kChar ? c.code != instr.a : !program_.sets[instr.a].contains(c.code)) return false;
      at += c.size;
      return true;
    }
    case Op::kAnchor:
      return holds(static_cast<Anchor>(instr.a), at);
    case Op::kLook:
    case Op::kLookBehind:
      return looks(instr, at) != (instr.b != 0);
    case Op::kAtomic: {
      const auto end = run(instr.a, at);
      if (end) at = *end;
      return end.has_value();
    }
    default:
      return false;
  }
}

bool Matcher::looks(const RegexInstr& instr, std::size_t at) {
  if (instr.op == Op::kLook) return run(instr.a, at).has_value();
  for (std::uint32_t body = instr.a; body < instr.a + instr.c; ++body) {
    std::size_t from = at;
    std::uint32_t left = program_.bodies[body].back;
    for (; left > 0 && from > 0; --left) from = previous_char(text_, from);
    if (left == 0 && run(body, from)) return true;
  }
  return false;
}

bool Matcher::holds(Anchor anchor, std::size_t at) const {
  const bool begin = at == 0, end = at == text_.size();
  const auto word_at = [&](std::size_t i) { return program_.word.contains(char_at(text_, i).code); };
  switch (anchor) {
    case Anchor::kTextBegin:
      return begin;
    case Anchor::kTextEnd:
      return end;
    case Anchor::kTextEndOrLastNewline:
      return end || (at + 1 == text_.size() && text_[at] == '\n');
    case Anchor::kLineBegin:
      return begin || (!end && text_[at - 1] == '\n');
    case Anchor::kLineEnd:
      return end || text_[at] == '\n';
    case Anchor::kWord:
    case Anchor::kNoWord: {
      const bool before = !begin && word_at(previous_char(text_, at));
      const bool behind = !end && word_at(at);
      return (before != behind) == (anchor == Anchor::kWord);
    }
  }
  return false;
}

// Long runs are measured once: what begins inside one ends where it ends.
bool Matcher::take_run(std::size_t pc, const RegexInstr& instr, std::size_t& at) {
  constexpr std::uint32_t kLong = 64;
  const CharSet& set = program_.sets[instr.a];
  const bool open = instr.c == RegexNode::kUnbounded;
  const auto known = std::find_if(run_ends_.begin(), run_ends_.end(), [&](const RunEnds& r) { return r.pc == pc; });
  std::vector<std::uint32_t>* ends = known == run_ends_.end() ? nullptr : &known->ends;
  std::size_t to = at;
  std::uint32_t count = 0;
  while (count < instr.c && to < text_.size()) {
    if (ends != nullptr && count >= instr.b && (*ends)[to] != 0) {
      to = (*ends)[to] - 1;
      break;
    }
    const Char c = char_at(text_, to);
    if (!set.contains(c.code)) break;
    to += c.size;
    ++count;
  }
  steps_left_ -= std::min<std::uint64_t>(steps_left_, count);
  if (count < instr.b) return false;
  if (open && count >= kLong) {
    if (ends == nullptr) {
      run_ends_.push_back({pc, std::vector<std::uint32_t>(text_.size() + 1)});
      memo_bytes_ += (text_.size() + 1) * sizeof(std::uint32_t);
      ends = &run_ends_.back().ends;
    }
    for (std::size_t i = at; i < to && (*ends)[i] == 0; ++i) (*ends)[i] = static_cast<std::uint32_t>(to + 1);
  }
  at = to;
  return true;
}

// The body has been gone through to its end: the splits on the way there did not fail. Others at the same positions may
// have failed only because they came back to one of these without taking a character; they are forgotten.
void Matcher::remember(std::uint32_t body, std::size_t trail_base, std::size_t end) {
  BodyMemo& memo = bodies_[body];
  for (std::size_t i = trail_base; i < trail_.size(); ++i) memo.tried.clear(trail_[i].at);
  if (program_.bodies[body].kind == RegexBody::Kind::kMain) return;
  for (std::size_t i = trail_base; i < trail_.size(); ++i) {
    memo.ends.emplace(key(trail_[i].split, trail_[i].at), end);
  }
  constexpr std::size_t kEntryBytes = 48;
  memo_bytes_ += (trail_.size() - trail_base) * kEntryBytes;
}

}  // namespace

Regex::Regex(std::unique_ptr<const RegexProgram> program) : program_(std::move(program)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  WEIR_TRY(ParsedRegex parsed, parse_regex(pattern));
  WEIR_TRY(RegexProgram program, compile_regex(std::move(parsed)));
  return Regex(std::make_unique<const RegexProgram>(std::move(program)));
}

bool Regex::find_all(std::string_view text, std::vector<Span>& out) const {
  if (text.size() >= 0xFFFFFFFF) return false;  // positions have 32 bits
  Matcher matcher(*program_, text);
  std::size_t at = 0;
  std::optional<std::size_t> last_end;
  while (at <= text.size() && !matcher.spent()) {
    const auto end = matcher.match(at);
    if (end && (*end > at || last_end != at)) {
      out.push_back({at, *end});
      last_end = *end;
    }
    if (end && *end > at) {
      at = *end;
    } else if (at < text.size()) {
      at += char_at(text, at).size;
    } else {
      break;
    }
  }
  return !matcher.spent();
}

}  // namespace weir::text
