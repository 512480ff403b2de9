#include "model/layers/delta.h"

#include <array>
#include <cmath>

namespace weir::model {

Result<DeltaNet> DeltaNet::load(Loader& loader, int layer, int index) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  DeltaNet d;
  d.spec_ = &loader.spec();
  const load::DeltaSpec& spec = d.spec_->delta;
  d.state_offset_ = index * spec.state_floats() * static_cast<std::int64_t>(sizeof(float));
  WEIR_TRY(d.q_, loader.linear(prefix + "ssm_q.weight"));
  WEIR_TRY(d.k_, loader.linear(prefix + "ssm_k.weight"));
  WEIR_TRY(d.v_, loader.linear(prefix + "ssm_v.weight"));
  WEIR_TRY(d.z_, loader.linear(prefix + "ssm_z.weight"));
  WEIR_TRY(d.beta_, loader.linear(prefix + "ssm_beta.weight"));
  WEIR_TRY(d.alpha_, loader.linear(prefix + "ssm_alpha.weight"));
  WEIR_TRY(d.out_, loader.linear(prefix + "ssm_out.weight"));
  WEIR_TRY(d.taps_, loader.vector(prefix + "ssm_conv1d.weight"));
  WEIR_TRY(std::vector<float> decay, loader.values(prefix + "ssm_a.weight"));
  if (spec.log_decay) {
    for (float& a : decay) a = -std::exp(a);
  }
  d.decay_ = loader.upload(decay);
  WEIR_TRY(d.dt_, loader.vector(prefix + "ssm_dt.bias"));
  WEIR_TRY(d.norm_, loader.vector(prefix + "ssm_norm.weight"));
  return d;
}

void DeltaNet::run(const Step& step, const Input& in, const Output& out) const {
  const load::DeltaSpec& spec = spec_->delta;
  const std::int64_t rows = step.batch.rows();
  const std::int64_t keys = std::int64_t{spec.key_heads} * spec.key_dim,
                     values = std::int64_t{spec.value_heads} * spec.value_dim;
  const Matrix<float> inputs = step.get(Workspace::kDeltaInputs), z = step.get(Workspace::kDeltaZ),
                      rates = step.get(Workspace::kDeltaRates), made = step.get(Workspace::kDeltaOut);
  const auto columns = [rows](const Matrix<float>& whole, std::int64_t begin, std::int64_t count) {
    return Matrix<float>(whole.data + begin, rows, count, whole.stride);
  };
  const Matrix<float> beta = columns(rates, 0, spec.value_heads),
                      alpha = columns(rates, spec.value_heads, spec.value_heads);
  const std::array<backend::LinearOutput, 6> projections = {
      {{q_.get(), nullptr, columns(inputs, 0, keys), false},
       {k_.get(), nullptr, columns(inputs, keys, keys), false},
       {v_.get(), nullptr, columns(inputs, 2 * keys, values), false},
       {z_.get(), nullptr, z, false},
       {beta_.get(), nullptr, beta, false},
       {alpha_.get(), nullptr, alpha, false}}};
  step.backend.linear({.x = in.x, .norm_weight = in.norm_weight, .norm_eps = in.norm_eps, .outputs = projections});
  const auto sequences = static_cast<std::int64_t>(step.batch.seq_lens.size());
  step.backend.delta_net({.inputs = inputs,
                          .beta = beta,
                          .alpha = alpha,
                          .taps = taps_.data(),
                          .decay = decay_.data(),
                          .dt = dt_.data(),
                          .key_heads = spec.key_heads,
                          .value_heads = spec.value_heads,
                          .key_dim = spec.key_dim,
                          .value_dim = spec.value_dim,
                          .tap_count = spec.taps,
                          .tiled = spec.tiled,
                          .query_starts = step.batch.query_starts,
                          .seq_lens = step.batch.seq_lens,
                          .state = {.base = step.kv.state_base,
                                    .block_bytes = step.kv.block_bytes,
                                    .tables = {step.batch.state_tables.data(), sequences, step.batch.state_width},
                                    .offset = state_offset_},
                          .out = made});
  step.backend.head_norm_rope({.x = made,
                               .head_dim = spec.value_dim,
                               .norm_weight = norm_.data(),
                               .norm_eps = spec_->rms_eps,
                               .positions = step.row_index});
  step.backend.multiply_silu(z, made);
  const backend::LinearOutput o = {out_.get(), nullptr, out.y, out.accumulate};
  step.backend.linear({.x = made, .outputs = {&o, 1}});
}

}  // namespace weir::model
