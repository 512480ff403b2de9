#include "model/layers/gated_mlp.h"

namespace weir::model {

backend::Activation activation_of(const ModelSpec& spec) {
  switch (spec.activation) {
    case load::Activation::kSilu:
      return backend::Activation::kSilu;
    case load::Activation::kGeluTanh:
      return backend::Activation::kGeluTanh;
    case load::Activation::kClampedSwiglu:
      return backend::Activation::kClampedSwiglu;
  }
  return backend::Activation::kSilu;
}

backend::SwigluLimits swiglu_of(const ModelSpec& spec) {
  return {.alpha = spec.swiglu_alpha, .limit = spec.swiglu_limit};
}

Result<GatedMlp> GatedMlp::load(Loader& loader, int layer, const std::string& ending) {
  const auto name = [&](std::string_view part, std::string_view kind) {
    return fmt::format("blk.{}.ffn_{}{}.{}", layer, part, ending, kind);
  };
  GatedMlp m;
  m.activation_ = activation_of(loader.spec());
  m.swiglu_ = swiglu_of(loader.spec());
  WEIR_TRY(m.gate_, loader.linear(name("gate", "weight")));
  WEIR_TRY(m.up_, loader.linear(name("up", "weight")));
  WEIR_TRY(m.down_, loader.linear(name("down", "weight")));
  WEIR_TRY(m.gate_bias_, loader.optional_vector(name("gate", "bias")));
  WEIR_TRY(m.up_bias_, loader.optional_vector(name("up", "bias")));
  WEIR_TRY(m.down_bias_, loader.optional_vector(name("down", "bias")));
  return m;
}

void GatedMlp::run(const Step& step, const Input& in, const Output& out) const {
  const Matrix<float> inner = step.workspace.get(Workspace::kInner, in.x.rows, gate_->rows());
  step.backend.gated_linear({.x = in.x,
                             .norm_weight = in.norm_weight,
                             .norm_eps = in.norm_eps,
                             .gate = gate_.get(),
                             .up = up_.get(),
                             .gate_bias = gate_bias_.data(),
                             .up_bias = up_bias_.data(),
                             .activation = activation_,
                             .y = inner,
                             .swiglu = swiglu_});
  const backend::LinearOutput down = {down_.get(), down_bias_.data(), out.y, out.accumulate};
  step.backend.linear({.x = inner, .outputs = {&down, 1}});
}

}  // namespace weir::model
