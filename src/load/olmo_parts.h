// What OLMo 2 and 3 have in common: norms only of what attention and feed-forward add, and of the whole of q and k.
#pragma once

#include <utility>

#include "load/families/family.h"

namespace weir::load {

inline constexpr std::int64_t kOlmoPattern = 4;  // OLMo 3: one of so many layers sees everything

inline void place_olmo_norms(ModelSpec& spec) {
  spec.pre_norms = false;
  spec.post_norms = true;
  spec.qk_norm = QkNorm::kWidth;
}

// `rope`: of the windowed layers.
inline void set_olmo_windows(const std::vector<bool>& local, int window, RopeSpec rope, ModelSpec& spec) {
  set_windows(local, window, spec);
  spec.ropes.push_back(std::move(rope));
  for (std::size_t i = 0; i < local.size(); ++i) spec.layer[i].rope = local[i] ? 1 : 0;
}

}  // namespace weir::load
