// SimpleStep: a StepModel of a dozen numbers: work and reading overlap, the rest adds up.
//
//   step_s = fixed_s + sequence_s sequences + send_s tokens
//          + max(token_s tokens + sample_s samples + pair_s attended,
//                weights_s + experts_s (1 - (1 - expert_share)^tokens) + context_s context_read)
//
// By hand from a file, or from a card and hardware: the plain roofline at the shares below. A fitted model is better
// where there is one.
#pragma once

#include <string>

#include "base/result.h"
#include "plan/hardware.h"
#include "plan/model_card.h"
#include "plan/parallel_layout.h"
#include "plan/step_model.h"

namespace weir::plan::sim {

struct SimpleStep final : StepModel {
  double fixed_s = 0, sequence_s = 0, send_s = 0;
  double token_s = 0, sample_s = 0, pair_s = 0;
  double weights_s = 0, experts_s = 0, expert_share = 0, context_s = 0;

  double step_s(const StepShape& shape) const override;
};

// Without measurements: what kernels commonly reach of a device's arithmetic, bandwidth and links, and what a layer's
// launches take.
inline constexpr double kArithmeticShare = 0.5, kBandwidthShare = 0.8, kLinkShare = 0.6, kLayer_s = 20e-6;

// `kv_bytes`: that the devices of a stage read of each token, copies included.
SimpleStep roofline_step(const ModelCard& card, const Hardware& hardware, const WeightTypes& types,
                         const ParallelLayout& layout, double kv_bytes);

// A JSON object of the fields above, absent ones 0. kCorruptFile names the field.
Result<SimpleStep> read_simple_step(const std::string& path);

}  // namespace weir::plan::sim
