// Regex: a split or replace pattern that came with a model file. The fallback for patterns without a scanner.
//
// Time is linear in the text, whatever the pattern and the text: every split of the program is tried at most once per
// position of a text, over all matches together (what failed there once fails again), so the work is at most the
// program's size (bounded) times the text's. A budget of steps stands behind that; when it is spent the rest of the
// text counts as not matched. Immutable after compile; any number of threads. Characters are Unicode 16's; a byte that
// is not UTF-8 is a character in no class.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::text {

struct Span {
  std::size_t begin = 0, end = 0;
};

struct RegexProgram;

class Regex {
 public:
  static Result<Regex> compile(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // All matches in order, disjoint; an empty one only where no match ended. False: the budget was spent before the end.
  bool find_all(std::string_view text, std::vector<Span>& out) const;

 private:
  explicit Regex(std::unique_ptr<const RegexProgram> program);
  std::unique_ptr<const RegexProgram> program_;
};

}  // namespace weir::text
