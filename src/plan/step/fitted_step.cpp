#include "plan/step/fitted_step.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/printable.h"
#include "plan/memory.h"
#include "plan/silicon/silicon_model.h"

namespace weir::plan {
namespace {

// Terms weighed by coefficients, never below what the hardware allows, in seconds.
class WeighedStep final : public StepModel {
 public:
  WeighedStep(StepFacts facts, Hardware hardware, ParallelLayout layout, StepBits bits,
              std::array<double, kTerms> weights)
      : facts_(std::move(facts)), hardware_(std::move(hardware)), layout_(layout), bits_(bits), weights_(weights) {}

  double step_s(const StepShape& shape) const override {
    if (shape.tokens <= 0) return 0;
    double floor_ms = 0;
    const StepTerms terms = step_terms(facts_, hardware_, layout_, bits_, load_of(shape), &floor_ms);
    double sum = 0;
    for (std::size_t i = 0; i < terms.size(); ++i) sum += weights_[i] * terms[i];
    return 1e-3 * std::max(sum, floor_ms);
  }

 private:
  StepFacts facts_;
  Hardware hardware_;
  ParallelLayout layout_;
  StepBits bits_;
  std::array<double, kTerms> weights_;
};

}  // namespace

Status check_backend(const std::string& backend) {
  static const std::set<std::string> known = [] {
    std::set<std::string> names;
    for (const SiliconRow* row : shared_silicon().used()) names.insert(row->backend);
    return names;
  }();
  if (backend.empty() || known.contains(backend)) return {};
  return fail_at("backend", ErrorCode::kInvalidArgument, "backend \"{}\" was never measured; known: {}",
                 printable(backend), fmt::join(known, ", "));
}

Result<std::unique_ptr<StepModel>> make_step_model(const ModelCard& card, const Hardware& hardware,
                                                   const ParallelLayout& layout, const WeightTypes& types,
                                                   double kv_bits, const std::string& backend) {
  WEIR_RETURN_IF_ERROR(check_layout(card, layout));
  WEIR_RETURN_IF_ERROR(check_links(hardware, layout));
  StepFacts facts = facts_of(card);
  const StepBits bits = step_bits(types, kv_bits);
  const RowKind kind = facts.dense() ? RowKind::kDense : RowKind::kMixture;
  WEIR_RETURN_IF_ERROR(check_backend(backend));
  const SiliconModel& model = shared_model(kind, Latency::kTpot);
  const auto groups = measured_groups(card.name, hardware, backend, bits);
  const auto fitted = model.coefficients(groups);
  std::array<double, kTerms> weights{};
  std::copy(fitted.begin(), fitted.end(), weights.begin());
  return std::make_unique<WeighedStep>(std::move(facts), hardware, layout, bits, weights);
}

}  // namespace weir::plan
