#include "model/layers/workspace.h"

#include "base/check.h"

namespace weir::model {

Workspace::Workspace(const load::ModelSpec& spec, backend::Backend& backend, std::int64_t max_rows)
    : max_rows_(max_rows) {
  width_[kX] = spec.hidden;
  width_[kQ] = width_[kAttended] = static_cast<std::int64_t>(spec.heads) * spec.head_dim;
  width_[kK] = width_[kV] = static_cast<std::int64_t>(spec.kv_heads) * spec.head_dim;
  width_[kInner] = spec.ffn;
  width_[kBranch] = spec.post_norms ? spec.hidden : 0;
  for (int slot = 0; slot < kSlots; ++slot) {
    const std::int64_t elements = max_rows * width_[slot];
    if (elements > 0) buffer_[slot] = backend.allocate(static_cast<std::size_t>(elements) * sizeof(float));
  }
}

tensor::Matrix<float> Workspace::view(Slot slot, std::int64_t rows) const {
  CHECK(rows <= max_rows_, "rows={} max_rows={}", rows, max_rows_);
  CHECK(buffer_[slot] != nullptr, "slot={}", static_cast<int>(slot));
  return {reinterpret_cast<float*>(buffer_[slot]->data()), rows, width_[slot]};
}

}  // namespace weir::model
