#include "model/layers/workspace.h"

#include <algorithm>

#include "base/check.h"

namespace weir::model {

Workspace::Workspace(const load::ModelSpec& spec, backend::Backend& backend, std::int64_t max_rows)
    : max_rows_(max_rows) {
  const std::int64_t q = static_cast<std::int64_t>(spec.heads) * spec.head_dim;
  width_[kX] = spec.hidden;
  if (spec.norm == load::NormKind::kLayer) width_[kNormed] = spec.hidden;
  if (spec.post_norms || spec.residual_scale != 1.0f) width_[kBranch] = spec.hidden;
  width_[kQ] = width_[kAttended] = q;
  width_[kK] = width_[kV] = static_cast<std::int64_t>(spec.kv_heads) * spec.head_dim;
  if (spec.attention_gate) width_[kGate] = q;
  width_[kInner] = spec.ffn;
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

}  // namespace weir::model
