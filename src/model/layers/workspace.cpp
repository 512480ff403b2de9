#include "model/layers/workspace.h"

#include <algorithm>

#include "base/check.h"

namespace weir::model {

Workspace::Workspace(const load::ModelSpec& spec, backend::Backend& backend, std::int64_t max_rows)
    : max_rows_(max_rows) {
  const std::int64_t q = static_cast<std::int64_t>(spec.heads) * spec.head_dim;
  width_[kX] = spec.hidden;
  if (spec.norm == load::NormKind::kLayer || spec.has_sparse_layers()) width_[kNormed] = spec.hidden;
  if (spec.post_norms || spec.residual_scale != 1.0f) width_[kBranch] = spec.hidden;
  width_[kQ] = width_[kAttended] = q;
  width_[kK] = width_[kV] = static_cast<std::int64_t>(spec.kv_heads) * spec.head_dim;
  if (spec.attention_gate) width_[kGate] = q;
  const load::LatentSpec& latent = spec.latent;
  if (latent.rank > 0) {
    const std::int64_t heads = spec.heads;
    width_[kAttended] = std::max(q, heads * latent.value_dim);
    width_[kCompressedQ] = latent.query_rank;
    width_[kLatent] = latent.rank + latent.rope_dim;
    width_[kLatentQ] = heads * width_[kLatent];
    width_[kLatentOut] = heads * latent.rank;
  }
  const load::IndexerSpec& indexer = spec.indexer;
  width_[kIndexQ] = static_cast<std::int64_t>(indexer.heads) * indexer.head_dim;
  width_[kIndexK] = indexer.head_dim;
  width_[kIndexWeights] = indexer.heads;
  width_[kSelected] = indexer.positions;
  const load::DeltaSpec& delta = spec.delta;
  width_[kDeltaInputs] = delta.conv_width();
  width_[kDeltaZ] = width_[kDeltaOut] = static_cast<std::int64_t>(delta.value_heads) * delta.value_dim;
  width_[kDeltaRates] = 2 * static_cast<std::int64_t>(delta.value_heads);
  width_[kInner] = std::max(spec.ffn, spec.experts.shared_ffn);
  width_[kRouter] = spec.experts.count;
  width_[kChosen] = width_[kExpertWeights] = spec.experts.used;
  if (spec.experts.shared_gate) {
    width_[kShared] = spec.hidden;
    width_[kSharedGate] = 1;
  }
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
