// Workspace: the activations of one step, allocated once for the largest step. Every buffer is [rows, width] F32; one
// that the model has no use for has no width and is not there.
#pragma once

#include <array>
#include <memory>

#include "backend/backend.h"
#include "load/model_spec.h"

namespace weir::model {

class Workspace {
 public:
  enum Slot {
    kX,              // hidden: the residual stream
    kNormed,         // hidden: LayerNorm of it
    kBranch,         // hidden: what a branch adds, before its norm or scale
    kQ,              // heads * head_dim
    kK,              // kv_heads * head_dim
    kV,              // kv_heads * head_dim
    kGate,           // heads * head_dim: of attention's output
    kAttended,       // heads * value dimension
    kCompressedQ,    // latent.query_rank
    kLatent,         // latent.rank + latent.rope_dim: what is kept of a token
    kLatentQ,        // heads * that: queries in the latents' space
    kLatentOut,      // heads * latent.rank: what attention makes of latents
    kIndexQ,         // indexer's heads * head_dim
    kIndexK,         // indexer's head_dim
    kIndexWeights,   // indexer's heads
    kSelected,       // indexer's positions, as integers
    kDeltaInputs,    // delta.conv_width()
    kDeltaZ,         // delta's value heads * value_dim: gate of its output
    kDeltaRates,     // 2 * delta's value heads: beta and alpha
    kDeltaOut,       // delta's value heads * value_dim
    kInner,          // the widest feed-forward part
    kRouter,         // experts: the router's logits
    kChosen,         // experts per token, as integers
    kExpertWeights,  // experts per token
    kShared,         // hidden: what the shared expert makes
    kSharedGate,     // 1
    kSlots
  };

  using Widths = std::array<std::int64_t, kSlots>;
  static Widths widths(const load::ModelSpec& spec);

  Workspace(const load::ModelSpec& spec, backend::Backend& backend, std::int64_t max_rows);

  std::int64_t max_rows() const { return max_rows_; }
  tensor::Matrix<float> get(Slot slot, std::int64_t rows) const { return get(slot, rows, width_[slot]); }
  tensor::Matrix<std::int32_t> integers(Slot slot, std::int64_t rows) const;
  // The first `cols` columns' worth of it, packed.
  tensor::Matrix<float> get(Slot slot, std::int64_t rows, std::int64_t cols) const;

 private:
  std::int64_t max_rows_;
  std::unique_ptr<backend::Buffer> buffer_[kSlots];
  Widths width_ = {};
};

}  // namespace weir::model
