#include "model/layers/attention.h"

#include <array>

namespace weir::model {

Result<Attention> Attention::load(Loader& loader, int layer) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  Attention a;
  a.layer_ = layer;
  a.spec_ = &loader.spec();
  WEIR_TRY(a.q_, loader.linear(prefix + "attn_q.weight"));
  WEIR_TRY(a.k_, loader.linear(prefix + "attn_k.weight"));
  WEIR_TRY(a.v_, loader.linear(prefix + "attn_v.weight"));
  WEIR_TRY(a.o_, loader.linear(prefix + "attn_output.weight"));
  WEIR_TRY(a.q_bias_, loader.optional_bias(prefix + "attn_q.bias"));
  WEIR_TRY(a.k_bias_, loader.optional_bias(prefix + "attn_k.bias"));
  WEIR_TRY(a.v_bias_, loader.optional_bias(prefix + "attn_v.bias"));
  WEIR_TRY(a.o_bias_, loader.optional_bias(prefix + "attn_output.bias"));
  if (a.spec_->qk_norm) {
    WEIR_TRY(a.q_norm_, loader.norm(prefix + "attn_q_norm.weight"));
    WEIR_TRY(a.k_norm_, loader.norm(prefix + "attn_k_norm.weight"));
  }
  return a;
}

void Attention::run(const Step& step, const Vector& norm, Matrix<float> out, bool accumulate) const {
  const std::int64_t rows = step.batch.rows();
  const load::LayerSpec& layer = spec_->layer[static_cast<std::size_t>(layer_)];
  const Matrix<float> q = step.workspace.q(rows), k = step.workspace.k(rows), v = step.workspace.v(rows);

  const std::array<backend::LinearOutput, 3> qkv = {{{q_.get(), q_bias_.data(), q, false},
                                                     {k_.get(), k_bias_.data(), k, false},
                                                     {v_.get(), v_bias_.data(), v, false}}};
  step.backend.linear(
      {.x = step.workspace.x(rows), .norm_weight = norm.data(), .norm_eps = spec_->rms_eps, .outputs = qkv});

  const backend::RopeTable* rope = layer.rope < 0 ? nullptr : &step.ropes[static_cast<std::size_t>(layer.rope)];
  const auto norm_and_turn = [&](Matrix<float> heads, const Vector& head_norm) {
    if (rope == nullptr && head_norm.data() == nullptr) return;
    step.backend.head_norm_rope({.x = heads,
                                 .head_dim = spec_->head_dim,
                                 .norm_weight = head_norm.data(),
                                 .norm_eps = spec_->rms_eps,
                                 .rope = rope,
                                 .positions = step.row_index});
  };
  norm_and_turn(q, q_norm_);
  norm_and_turn(k, k_norm_);

  const backend::KvLayerView& kv = step.kv.layers[static_cast<std::size_t>(layer_)];
  const ForwardBatch::Group& group =
      step.batch.groups[static_cast<std::size_t>(step.kv.group[static_cast<std::size_t>(layer_)])];
  step.backend.kv_write({.k = k, .v = v, .kv = kv, .slots = group.slots});

  const Matrix<float> attended = step.workspace.attended(rows);
  const auto sequences = static_cast<std::int64_t>(step.batch.seq_lens.size());
  step.backend.attention({.q = q,
                          .kv = kv,
                          .heads = spec_->heads,
                          .query_starts = step.batch.query_starts,
                          .seq_lens = step.batch.seq_lens,
                          .block_tables = {group.tables.data(), sequences, group.table_width},
                          .window = layer.window,
                          .scale = spec_->attention_scale,
                          .softcap = spec_->attention_softcap,
                          .out = attended});

  const backend::LinearOutput o = {o_.get(), o_bias_.data(), out, accumulate};
  step.backend.linear({.x = attended, .outputs = {&o, 1}});
}

}  // namespace weir::model
