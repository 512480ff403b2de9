// Regex: a split or replace pattern that came with a model file, run by PCRE2 under limits. The fallback for patterns
// without a scanner.
//
// A pattern is hostile until proven: its size, the stack, and the work per text are bounded; when a limit is hit the
// rest of that text counts as not matched. Immutable after compile; any number of threads. Character classes are
// PCRE2's Unicode (14), not ours.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::text {

struct Span {
  std::size_t begin = 0, end = 0;
};

class Regex {
 public:
  static Result<Regex> compile(const std::string& pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // All matches in order, disjoint; empty ones are left out.
  void find_all(std::string_view text, std::vector<Span>& out) const;

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::text
