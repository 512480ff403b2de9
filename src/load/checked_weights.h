// CheckedWeights: the WeightSource over any file format. Made only of tensors that were found complete and of the
// expected shapes, at the places that a TensorMap gave them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/tensor_map.h"
#include "load/weight_source.h"

namespace weir::load {

// What a file holds and how it names things.
struct WeightInput {
  std::string file;             // for errors
  std::string supported_types;  // of the format, for errors
  std::span<const Weight> tensors;
  std::span<const UnsupportedTensor> unsupported;
  std::function<bool(std::string_view)> ignorable;  // tensors that carry nothing of the model
  std::shared_ptr<void> owner;                      // keeps the bytes alive
  std::function<void(std::span<const std::byte>)> release;
  std::function<void(std::span<const std::byte>)> fetch = {};  // before whole rows are read; empty: they are there
};

// Refuses: a missing tensor, another shape or an unusable type, and tensors that the family does not have (they would
// silently change the result).
Result<std::unique_ptr<WeightSource>> check_weights(const std::vector<ExpectedTensor>& expected, WeightInput input);

}  // namespace weir::load
