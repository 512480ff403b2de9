// `weir plan size`: what a model weighs, what a token of context costs, what fits on given devices.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/memory.h"
#include "plan/report.h"
#include "plan/subject.h"

namespace weir::plan {

struct SizeQuery {
  SubjectQuery subject;
  bool layout_given = false;  // else the smallest tensor parallelism that fits is taken
  int block_tokens = 16;
  std::int64_t context = 0;  // tokens of a sequence; 0: 8192, or the model's own where that is less
  std::int64_t step_tokens = 8192;
  std::int64_t sequences = 256;
  double memory_share = 0.9;
};

// Errors: those of the subject; kInvalidArgument naming the term that does not fit, with all figures.
Result<Report> size_report(const SizeQuery& query);

}  // namespace weir::plan
