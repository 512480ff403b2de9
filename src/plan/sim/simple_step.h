// SimpleStep: a StepModel of ten numbers from a file: work and reading overlap, the rest adds up.
//
//   step_s = fixed_s + sequence_s sequences + send_s tokens
//          + max(token_s tokens + sample_s samples + pair_s attended,
//                weights_s + experts_s (1 - (1 - expert_share)^tokens) + context_s context_read)
#pragma once

#include <string>

#include "base/result.h"
#include "plan/step_model.h"

namespace weir::plan::sim {

struct SimpleStep final : StepModel {
  double fixed_s = 0, sequence_s = 0, send_s = 0;
  double token_s = 0, sample_s = 0, pair_s = 0;
  double weights_s = 0, experts_s = 0, expert_share = 0, context_s = 0;

  double step_s(const StepShape& shape) const override;
};

// A JSON object of the fields above, absent ones 0. kCorruptFile names the field.
Result<SimpleStep> read_simple_step(const std::string& path);

}  // namespace weir::plan::sim
