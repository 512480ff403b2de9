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

SimpleStep roofline_step(const ModelCard& card, const Hardware& hardware, const WeightTypes& types,
                         const ParallelLayout& layout, double kv_bytes) {
  const int n = layout.stage_devices();  // stages work one after the other
  double linear = 0, experts = 0, head = 0;
  for (const CardTensor& tensor : card.tensors) {
    const auto elements = static_cast<double>(tensor.elements());
    if (tensor.role == TensorRole::kExperts) {
      experts += elements;
    } else if (tensor.role == TensorRole::kHead) {
      head += elements;
    } else if (tensor.role != TensorRole::kEmbedding) {
      linear += elements;
    }
  }
  const load::ModelSpec& spec = card.spec;
  const double used = spec.experts.count > 0 ? static_cast<double>(spec.experts.used) / spec.experts.count : 0;
  const double flops_s = n * hardware.peak_tflops(types.linear_bits) * 1e12 * kArithmeticShare;
  const double attention_s = n * hardware.peak_tflops(16) * 1e12 * kArithmeticShare;
  const double bytes_s = n * hardware.bandwidth_gbs * 1e9 * kBandwidthShare;
  SimpleStep step;
  step.fixed_s = kLayer_s * spec.layers;
  step.token_s = 2 * (linear + experts * used) / flops_s;
  step.sample_s = 2 * head / flops_s;
  // Score and value, two operations each, of every head.
  const double key = spec.latent.rank > 0 ? spec.latent.plain_dim + spec.latent.rope_dim : spec.head_dim;
  const double value = spec.latent.rank > 0 ? spec.latent.value_dim : spec.head_dim;
  step.pair_s = 2.0 * spec.heads * (key + value) * spec.layers / attention_s;
  step.weights_s = (linear * types.linear_bits + head * types.head_bits) / 8 / bytes_s;
  step.experts_s = experts * types.expert_bits / 8 / bytes_s;
  step.expert_share = used;
  step.context_s = kv_bytes / bytes_s;
  if (layout.tp > 1 && hardware.link_gbs > 0) {
    // Two sums a layer, of 16-bit activations; each device sends 2 (n - 1) / n of them.
    step.send_s = 2.0 * spec.layers * spec.hidden * 2 * 2 * (layout.tp - 1) / layout.tp / layout.dp /
                  (hardware.link_gbs * 1e9 * kLinkShare);
  }
  return step;
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
