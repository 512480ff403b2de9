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
};

}  // namespace weir::model
