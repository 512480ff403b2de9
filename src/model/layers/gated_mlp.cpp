#include "model/layers/gated_mlp.h"

namespace weir::model {

Result<GatedMlp> GatedMlp::load(Loader& loader, int layer) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  GatedMlp m;
  m.spec_ = &loader.spec();
  WEIR_TRY(m.gate_, loader.linear(prefix + "ffn_gate.weight"));
  WEIR_TRY(m.up_, loader.linear(prefix + "ffn_up.weight"));
  WEIR_TRY(m.down_, loader.linear(prefix + "ffn_down.weight"));
  WEIR_TRY(m.gate_bias_, loader.optional_bias(prefix + "ffn_gate.bias"));
  WEIR_TRY(m.up_bias_, loader.optional_bias(prefix + "ffn_up.bias"));
  WEIR_TRY(m.down_bias_, loader.optional_bias(prefix + "ffn_down.bias"));
  return m;
}

void GatedMlp::run(const Step& step, const Vector& norm, Matrix<float> out, bool accumulate) const {
  const std::int64_t rows = step.batch.rows();
  const Matrix<float> inner = step.workspace.inner(rows);
  step.backend.gated_linear({.x = step.workspace.x(rows),
                             .norm_weight = norm.data(),
                             .norm_eps = spec_->rms_eps,
                             .gate = gate_.get(),
                             .up = up_.get(),
                             .gate_bias = gate_bias_.data(),
                             .up_bias = up_bias_.data(),
                             .activation = spec_->activation == load::Activation::kSilu
                                               ? backend::Activation::kSilu
                                               : backend::Activation::kGeluTanh,
                             .y = inner});
  const backend::LinearOutput down = {down_.get(), down_bias_.data(), out, accumulate};
  step.backend.linear({.x = inner, .outputs = {&down, 1}});
}

}  // namespace weir::model
