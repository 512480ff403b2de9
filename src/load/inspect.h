// What a model is, for people (`weir inspect MODEL`) and for programs (`--json`). Reads no weights, only their table of
// contents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

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

struct InspectOptions {
  InspectFormat format = InspectFormat::kText;
  bool all_tensors = false;    // each of them, instead of layers that are alike as one (text only: JSON has all)
  std::int64_t context = 0;    // tokens of the sequences whose memory is counted; 0: as many as the model takes
  std::int64_t sequences = 1;  // how many of them
  // What others know of the model: names and values, shown behind what is known here.
  std::vector<std::pair<std::string, std::string>> more;
};

// A folder that holds only a config.json is described as far as that goes. A model that weir cannot serve (an unknown
// architecture or type, files that are damaged, cut short or missing) is described as far as it can be read, with the
// reason. Errors: kNotFound; kCorruptFile where nothing can be read. Ends with a newline.
Result<std::string> describe_model(const std::string& path, const InspectOptions& options, const KvCostOf& kv_cost);

}  // namespace weir::load
