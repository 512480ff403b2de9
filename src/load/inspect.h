// What a model is, for people (`weir inspect MODEL`) and for programs (`--json`). Reads no weights, only their table of
// contents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "load/model_spec.h"

namespace weir::load {

enum class InspectFormat { kText, kJson };

// What the KV cache of a model takes, as it is really laid out (which load/ does not know).
struct KvCost {
  double bytes_per_token = 0;         // in all layers, as long as no window has passed
  std::int64_t bytes_of_context = 0;  // of one sequence that fills the context
  std::int64_t state_bytes = 0;       // of a sequence, whatever its length; part of bytes_of_context
};
using KvCostOf = std::function<KvCost(const ModelSpec& spec, tensor::DType dtype)>;

// A folder that holds only a config.json is described as far as that goes. A model that weir cannot serve (unknown
// architecture or tensor type, a file with only a vocabulary) is described by its metadata and tensors, with the
// reason. Errors: kNotFound, kCorruptFile. Ends with a newline.
Result<std::string> describe_model(const std::string& path, InspectFormat format, const KvCostOf& kv_cost);

}  // namespace weir::load
