#include "plan/sim/simple_step.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace weir::plan::sim {

double SimpleStep::step_s(const StepShape& shape) const {
  const auto tokens = static_cast<double>(shape.tokens);
  const double touched = experts_s > 0 ? 1 - std::exp(tokens * std::log1p(-std::min(expert_share, 1 - 1e-12))) : 0;
  const double work = token_s * tokens + sample_s * static_cast<double>(shape.samples) + pair_s * shape.attended;
  const double reading = weights_s + experts_s * touched + context_s * shape.context_read;
  return fixed_s + sequence_s * static_cast<double>(shape.sequences) + send_s * tokens + std::max(work, reading);
}

Result<SimpleStep> read_simple_step(const std::string& path) {
  std::ifstream in(path);
  if (!in) return fail_at("step-model", ErrorCode::kNotFound, "--step-model {}: cannot read it", printable(path));
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object())
    return fail_at("step-model", ErrorCode::kCorruptFile, "{}: it is no JSON object", printable(path));
  SimpleStep step;
  const std::pair<const char*, double*> fields[] = {
      {"fixed_s", &step.fixed_s},     {"sequence_s", &step.sequence_s}, {"send_s", &step.send_s},
      {"token_s", &step.token_s},     {"sample_s", &step.sample_s},     {"pair_s", &step.pair_s},
      {"weights_s", &step.weights_s}, {"experts_s", &step.experts_s},   {"expert_share", &step.expert_share},
      {"context_s", &step.context_s}};
  bool any = false;
  for (const auto& [name, target] : fields) {
    const auto it = json.find(name);
    if (it == json.end()) continue;
    if (!it->is_number() || !(it->get<double>() >= 0 && it->get<double>() < 1e6)) {
      return fail_at("step-model", ErrorCode::kCorruptFile, "{}: '{}' is {}; a number of 0 to 1e6 is expected",
                     printable(path), name, printable(it->dump()));
    }
    *target = it->get<double>();
    any = any || *target > 0;
  }
  if (!any) {
    return fail_at(
        "step-model", ErrorCode::kCorruptFile,
        "{}: none of fixed_s, sequence_s, send_s, token_s, sample_s, pair_s, weights_s, experts_s, context_s is "
        "above 0: steps would take no time",
        printable(path));
  }
  return step;
}

}  // namespace weir::plan::sim
