// The tensors that a model of a given spec has, by canonical name.
#pragma once

#include <vector>

#include "load/model_spec.h"
#include "load/spec_rules.h"
#include "load/tensor_map.h"

namespace weir::load {

// Every tensor, in the order of a forward pass, without its place.
std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec, const Biases& biases);

}  // namespace weir::load
