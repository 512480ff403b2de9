#include "model/layers/workspace.h"

#include <algorithm>

#include "base/check.h"

namespace weir::model {

Workspace::Widths Workspace::widths(const load::ModelSpec& spec) {
  Widths width = {};
  const std::int64_t q = static_cast<std::int64_t>(spec.heads) * spec.head_dim;
  width[kX] = spec.hidden;
  if (spec.norm == load::NormKind::kLayer || spec.has_sparse_layers()) width[kNormed] = spec.hidden;
  if (spec.post_norms || spec.residual_scale != 1.0f) width[kBranch] = spec.hidden;
  width[kQ] = width[kAttended] = q;
  width[kK] = width[kV] = static_cast<std::int64_t>(spec.kv_heads) * spec.head_dim;
  if (spec.attention_gate) width[kGate] = q;
  const load::LatentSpec& latent = spec.latent;
  if (latent.rank > 0) {
    const std::int64_t heads = spec.heads;
    width[kAttended] = std::max(q, heads * latent.value_dim);
    width[kCompressedQ] = latent.query_rank;
    width[kLatent] = latent.rank + latent.rope_dim;
    width[kLatentQ] = heads * width[kLatent];
    width[kLatentOut] = heads * latent.rank;
  }
  const load::IndexerSpec& indexer = spec.indexer;
  width[kIndexQ] = static_cast<std::int64_t>(indexer.heads) * indexer.head_dim;
  width[kIndexK] = indexer.head_dim;
  width[kIndexWeights] = indexer.heads;
  width[kSelected] = indexer.positions;
  const load::DeltaSpec& delta = spec.delta;
  width[kDeltaInputs] = delta.conv_width();
  width[kDeltaZ] = width[kDeltaOut] = static_cast<std::int64_t>(delta.value_heads) * delta.value_dim;
  width[kDeltaRates] = 2 * static_cast<std::int64_t>(delta.value_heads);
  width[kInner] = std::max(spec.ffn, spec.experts.shared_ffn);
  width[kRouter] = spec.experts.count;
  width[kChosen] = width[kExpertWeights] = spec.experts.used;
  if (spec.experts.shared_gate) {
    width[kShared] = spec.hidden;
    width[kSharedGate] = 1;
  }
  return width;
}

Workspace::Workspace(const load::ModelSpec& spec, backend::Backend& backend, std::int64_t max_rows)
    : max_rows_(max_rows), width_(widths(spec)) {
  for (int slot = 0; slot < kSlots; ++slot) {
    const std::int64_t elements = max_rows * width_[slot];
    if (elements > 0) buffer_[slot] = backend.allocate(static_cast<std::size_t>(elements) * sizeof(float));
  }
}

tensor::Matrix<float> Workspace::get(Slot slot, std::int64_t rows, std::int64_t cols) const {
  CHECK(rows <= max_rows_ && cols <= width_[slot], "rows={} max_rows={} cols={} width={}", rows, max_rows_, cols,
        width_[slot]);
  CHECK(buffer_[slot] != nullptr, "slot={}", static_cast<int>(slot));
  return {reinterpret_cast<float*>(buffer_[slot]->data()), rows, cols};
}

tensor::Matrix<std::int32_t> Workspace::integers(Slot slot, std::int64_t rows) const {
  const tensor::Matrix<float> floats = get(slot, rows);
  return {reinterpret_cast<std::int32_t*>(floats.data), floats.rows, floats.cols};
}

}  // namespace weir::model
