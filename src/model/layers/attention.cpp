#include "model/layers/attention.h"

#include <array>

namespace weir::model {

Result<Attention> Attention::load(Loader& loader, int layer, int stream) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  Attention a;
  a.layer_ = layer;
  a.stream_ = stream;
  a.spec_ = &loader.spec();
  WEIR_TRY(a.q_, loader.linear(prefix + "attn_q.weight"));
  WEIR_TRY(a.k_, loader.linear(prefix + "attn_k.weight"));
  WEIR_TRY(a.v_, loader.linear(prefix + "attn_v.weight"));
  WEIR_TRY(a.o_, loader.linear(prefix + "attn_output.weight"));
  WEIR_TRY(a.q_bias_, loader.optional_vector(prefix + "attn_q.bias"));
  WEIR_TRY(a.k_bias_, loader.optional_vector(prefix + "attn_k.bias"));
  WEIR_TRY(a.v_bias_, loader.optional_vector(prefix + "attn_v.bias"));
  WEIR_TRY(a.o_bias_, loader.optional_vector(prefix + "attn_output.bias"));
  if (a.spec_->attention_gate) {
    WEIR_TRY(a.gate_, loader.linear(prefix + "attn_gate.weight"));
    WEIR_TRY(a.gate_bias_, loader.optional_vector(prefix + "attn_gate.bias"));
  }
  if (a.spec_->qk_norm != load::QkNorm::kNone) {
    WEIR_TRY(a.q_norm_, loader.norm(prefix + "attn_q_norm.weight"));
    WEIR_TRY(a.k_norm_, loader.norm(prefix + "attn_k_norm.weight"));
  }
  if (a.spec_->sinks) {
    WEIR_TRY(a.sinks_, loader.vector(prefix + "attn_sinks.weight"));
  }
  return a;
}

void Attention::norm_and_turn(const Step& step, Matrix<float> heads, const Vector& norm, int rope) const {
  const bool width = spec_->qk_norm == load::QkNorm::kWidth, turned = spec_->qk_norm == load::QkNorm::kTurnedHead;
  if (width) step.backend.rms_norm(heads, norm.data(), spec_->rms_eps, heads, /*accumulate=*/false);
  if (spec_->qkv_clip > 0) step.backend.clamp(spec_->qkv_clip, heads);
  backend::HeadNormRopeCall call = {.x = heads,
                                    .head_dim = spec_->head_dim,
                                    .norm_weight = width || turned ? nullptr : norm.data(),
                                    .norm_eps = spec_->rms_eps,
                                    .rope = step.rope(rope),
                                    .positions = step.row_index};
  step.backend.head_norm_rope(call);
  if (!turned) return;
  call.norm_weight = norm.data();
  call.rope = nullptr;
  step.backend.head_norm_rope(call);
}

void Attention::run(const Step& step, const Input& in, const Output& out) const {
  const load::LayerSpec& layer = spec_->layer[static_cast<std::size_t>(layer_)];
  const Matrix<float> q = step.get(Workspace::kQ), k = step.get(Workspace::kK), v = step.get(Workspace::kV);
  const bool gated = gate_ != nullptr;
  const Matrix<float> gate = gated ? step.get(Workspace::kGate) : Matrix<float>();

  const std::array<backend::LinearOutput, 4> projections = {{{q_.get(), q_bias_.data(), q, false},
                                                             {k_.get(), k_bias_.data(), k, false},
                                                             {v_.get(), v_bias_.data(), v, false},
                                                             {gate_.get(), gate_bias_.data(), gate, false}}};
  step.backend.linear({.x = in.x,
                       .norm_weight = in.norm_weight,
                       .norm_eps = in.norm_eps,
                       .outputs = std::span(projections).first(gated ? 4 : 3)});
  norm_and_turn(step, q, q_norm_, layer.query_rope < 0 ? layer.rope : layer.query_rope);
  norm_and_turn(step, k, k_norm_, layer.rope);
  if (spec_->qkv_clip > 0) step.backend.clamp(spec_->qkv_clip, v);

  const backend::KvLayerView& kv = step.kv.streams[static_cast<std::size_t>(stream_)];
  const ForwardBatch::Group& group = step.group(stream_);
  step.backend.kv_write({.k = k, .v = v, .kv = kv, .slots = group.slots});

  const Matrix<float> attended = step.get(Workspace::kAttended);
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
                          .sinks = sinks_.data(),
                          .out = attended});
  if (gated) step.backend.multiply_sigmoid(gate, attended);

  const backend::LinearOutput o = {o_.get(), o_bias_.data(), out.y, out.accumulate};
  step.backend.linear({.x = attended, .outputs = {&o, 1}});
}

}  // namespace weir::model
