// The StepModel of a deployment: the terms of a step (step_terms.h) weighed by coefficients that were fitted to
// measured deployments (silicon/silicon_model.h), or the plain roofline with the same terms.
//
// The fit runs once per process, at the first call of make_step_model (a second or two), and is then shared.
// Thread-safe; a model's step_s takes well below a microsecond and allocates nothing.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "plan/hardware.h"
#include "plan/model_card.h"
#include "plan/parallel_layout.h"
#include "plan/step/step_terms.h"
#include "plan/step_model.h"

namespace weir::plan {

// Whether there are measured deployments of this software: kInvalidArgument lists those there are. Empty: any.
Status check_backend(const std::string& backend);

// `backend`: "vllm", "sglang", "trtllm", or empty: what they have in common. `types`: of the weights; `kv_bits`: of an
// element of keys and values. Errors: kInvalidArgument for a layout that the model's heads or experts do not divide by,
// or check_backend's.
Result<std::unique_ptr<StepModel>> make_step_model(const ModelCard& card, const Hardware& hardware,
                                                   const ParallelLayout& layout, const WeightTypes& types,
                                                   double kv_bits, const std::string& backend = "");

}  // namespace weir::plan
