// Step: what every layer needs to know about the step it runs in.
#pragma once

#include <span>

#include "backend/backend.h"
#include "model/forward_batch.h"
#include "model/layers/workspace.h"
#include "model/model.h"

namespace weir::model {

struct Step {
  backend::Backend& backend;
  const ForwardBatch& batch;
  const KvView& kv;
  const Workspace& workspace;
  // cos and sin for this step's rows, one table for each of ModelSpec::ropes; row i of a table belongs to row i of the
  // batch.
  std::span<const backend::RopeTable> ropes;
  std::span<const std::int32_t> row_index;  // 0, 1, 2, ... [rows]

  const backend::RopeTable* rope(int index) const {
    return index < 0 ? nullptr : &ropes[static_cast<std::size_t>(index)];
  }
  const ForwardBatch::Group& group(int stream) const {
    return batch.groups[static_cast<std::size_t>(kv.group[static_cast<std::size_t>(stream)])];
  }
  tensor::Matrix<float> get(Workspace::Slot slot) const { return workspace.get(slot, batch.rows()); }
};

// What a branch reads: rows, to be RMS-normed first where there is a weight.
struct Input {
  tensor::Matrix<const float> x;
  const float* norm_weight = nullptr;
  float norm_eps = 0.0f;
};

// Where it puts what it makes.
struct Output {
  tensor::Matrix<float> y;
  bool accumulate = false;  // y is the residual stream itself
};

}  // namespace weir::model
