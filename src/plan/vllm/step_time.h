// StepTime: how long one forward pass of a run's engine takes, from its kernel profile.
//
// A pass is, on each device: per layer two norms, qkv, its norm and rotation, attention, o, then gate and up,
// activation, down (dense layers) or the experts; before them the embedding, after them norm, head and sampler. Times
// are of the profile at the rows that run: up to the largest captured CUDA graph they are padded to the next.
//
// Ranks of a mixture of experts with data parallelism run in step: the slowest rank's own layers, then experts of all
// ranks' rows. Each of ep parts of the experts does 1/ep of the rows' products and reads those of its experts that any
// row chose: E/ep * (1 - (1 - used/E)^rows) if choices are even. Around each, an all-gather and a reduce-scatter of
// the hidden states; sums of tensor parallelism after o and down. A collective takes latency + bytes / bandwidth a
// hop, bytes those of the mean rank (as LLMServingSim @5daddb2, whose link figures sim_config.json holds, counts
// them); a rank without work runs one row.
//
// `load_factor` multiplies what kernels take, not links: a profile is measured on one layer with pauses between
// passes, a server runs all of them without any, hotter and at lower clocks (validate.h says how it is found).
// Threads: const, any. Cost: O(1).
#pragma once

#include <span>

#include "plan/step_model.h"
#include "plan/vllm/run.h"

namespace weir::plan::vllm {

class StepTime : public StepModel {
 public:
  // `run` must live on.
  StepTime(const Run& run, double load_factor) : run_(run), load_factor_(load_factor) {}

  double step_s(const StepShape& shape) const override { return group_step_s({&shape, 1}); }
  // All ranks of data parallelism in one pass; at least one has work.
  double group_step_s(std::span<const StepShape> ranks) const;

 private:
  double padded(double rows) const;
  double rank_us(const StepShape& shape, double rows) const;
  double experts_us(double rows) const;
  double links_s(double mean_rows, double samples) const;

  const Run& run_;
  double load_factor_;
};

}  // namespace weir::plan::vllm
