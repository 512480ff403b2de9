#include "model/layers/latent.h"

#include <array>

namespace weir::model {

Result<LatentAttention::PerHead> LatentAttention::load_heads(Loader& loader, int layer, std::string_view name) {
  PerHead heads;
  for (int head = 0; head < loader.spec().heads; ++head) {
    WEIR_TRY(auto weight, loader.linear(fmt::format("blk.{}.{}.{}.weight", layer, name, head)));
    heads.pointers.push_back(weight.get());
    heads.weights.push_back(std::move(weight));
  }
  return heads;
}

Result<LatentAttention> LatentAttention::load(Loader& loader, int layer, int stream) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  LatentAttention a;
  a.layer_ = layer;
  a.stream_ = stream;
  a.spec_ = &loader.spec();
  if (a.spec_->latent.query_rank > 0) {
    WEIR_TRY(a.q_a_, loader.linear(prefix + "attn_q_a.weight"));
    WEIR_TRY(a.q_a_bias_, loader.optional_vector(prefix + "attn_q_a.bias"));
    WEIR_TRY(a.q_a_norm_, loader.vector(prefix + "attn_q_a_norm.weight"));
    WEIR_TRY(a.q_, loader.linear(prefix + "attn_q_b.weight"));
  } else {
    WEIR_TRY(a.q_, loader.linear(prefix + "attn_q.weight"));
  }
  WEIR_TRY(a.kv_a_, loader.linear(prefix + "attn_kv_a_mqa.weight"));
  WEIR_TRY(a.kv_a_bias_, loader.optional_vector(prefix + "attn_kv_a_mqa.bias"));
  WEIR_TRY(a.kv_a_norm_, loader.vector(prefix + "attn_kv_a_norm.weight"));
  WEIR_TRY(a.k_b_, load_heads(loader, layer, "attn_k_b"));
  WEIR_TRY(a.v_b_, load_heads(loader, layer, "attn_v_b"));
  WEIR_TRY(a.o_, loader.linear(prefix + "attn_output.weight"));
  WEIR_TRY(a.o_bias_, loader.optional_vector(prefix + "attn_output.bias"));
  if (a.spec_->indexer.heads > 0) {
    WEIR_TRY(a.indexer_, Indexer::load(loader, layer, stream + 1));
  }
  return a;
}

// Queries of the latents' space and this step's latents.
void LatentAttention::project(const Step& step, const Input& in) const {
  const load::LatentSpec& spec = spec_->latent;
  const int key_dim = spec.plain_dim + spec.rope_dim, kept_dim = spec.rank + spec.rope_dim;
  const Matrix<float> q = step.get(Workspace::kQ), kept = step.get(Workspace::kLatent);
  const bool compressed = q_a_ != nullptr;
  const Matrix<float> q_a = compressed ? step.get(Workspace::kCompressedQ) : q;
  const std::array<backend::LinearOutput, 2> projections = {
      {{compressed ? q_a_.get() : q_.get(), q_a_bias_.data(), q_a, false},
       {kv_a_.get(), kv_a_bias_.data(), kept, false}}};
  step.backend.linear({.x = in.x, .norm_weight = in.norm_weight, .norm_eps = in.norm_eps, .outputs = projections});
  if (compressed) {
    step.backend.rms_norm(q_a, q_a_norm_.data(), spec.norm_eps, q_a, /*accumulate=*/false);
    const backend::LinearOutput output = {q_.get(), nullptr, q, false};
    step.backend.linear({.x = q_a, .outputs = {&output, 1}});
  }
  const backend::RopeTable* rope = step.rope(spec_->layer[static_cast<std::size_t>(layer_)].rope);
  step.backend.head_norm_rope(
      {.x = q, .head_dim = key_dim, .rope = rope, .rope_begin = spec.plain_dim, .positions = step.row_index});
  step.backend.head_norm_rope({.x = kept,
                               .head_dim = kept_dim,
                               .norm_weight = kv_a_norm_.data(),
                               .norm_dims = spec.rank,
                               .norm_eps = spec.norm_eps,
                               .rope = rope,
                               .rope_begin = spec.rank,
                               .positions = step.row_index});
  const Matrix<float> latent_q = step.get(Workspace::kLatentQ);
  step.backend.head_linear({.x = q, .x_head = key_dim, .weights = k_b_.pointers, .y = latent_q, .y_head = kept_dim});
  step.backend.copy_heads({.from = q,
                           .from_head = key_dim,
                           .from_begin = spec.plain_dim,
                           .to = latent_q,
                           .to_head = kept_dim,
                           .to_begin = spec.rank,
                           .heads = spec_->heads,
                           .count = spec.rope_dim});
}

void LatentAttention::attend(const Step& step, const Matrix<const std::int32_t>& selected) const {
  const backend::KvLayerView& kv = step.kv.streams[static_cast<std::size_t>(stream_)];
  const ForwardBatch::Group& group = step.group(stream_);
  step.backend.kv_write({.k = step.get(Workspace::kLatent), .v = {}, .kv = kv, .slots = group.slots});
  const auto sequences = static_cast<std::int64_t>(step.batch.seq_lens.size());
  step.backend.attention({.q = step.get(Workspace::kLatentQ),
                          .kv = kv,
                          .heads = spec_->heads,
                          .query_starts = step.batch.query_starts,
                          .seq_lens = step.batch.seq_lens,
                          .block_tables = {group.tables.data(), sequences, group.table_width},
                          .window = spec_->layer[static_cast<std::size_t>(layer_)].window,
                          .scale = spec_->attention_scale,
                          .softcap = spec_->attention_softcap,
                          .selected = selected,
                          .out = step.get(Workspace::kLatentOut)});
}

void LatentAttention::run(const Step& step, const Input& in, const Output& out) const {
  project(step, in);
  Matrix<const std::int32_t> selected;
  if (indexer_) selected = indexer_->select(step, in, step.get(Workspace::kCompressedQ));
  attend(step, selected);
  const std::int64_t width = static_cast<std::int64_t>(spec_->heads) * spec_->latent.value_dim;
  const Matrix<float> attended = step.workspace.get(Workspace::kAttended, step.batch.rows(), width);
  step.backend.head_linear({.x = step.get(Workspace::kLatentOut),
                            .x_head = spec_->latent.rank,
                            .weights = v_b_.pointers,
                            .y = attended,
                            .y_head = spec_->latent.value_dim});
  const backend::LinearOutput o = {o_.get(), o_bias_.data(), out.y, out.accumulate};
  step.backend.linear({.x = attended, .outputs = {&o, 1}});
}

}  // namespace weir::model
