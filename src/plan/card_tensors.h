// The tensors of a model by what they are for.
#pragma once

#include <string_view>
#include <vector>

#include "load/model_spec.h"
#include "load/spec_rules.h"
#include "plan/model_card.h"

namespace weir::plan {

// By canonical name or GGUF's: "blk.3.ffn_up_exps.weight".
TensorRole role_of(std::string_view name);

// In the order of a forward pass; a layer's experts are one entry with a count, the heads of latents one matrix.
// Optional biases are left out. Cost: names of one layer of each kind, whatever the number of layers.
std::vector<CardTensor> card_tensors(const load::ModelSpec& spec, const load::Biases& biases);

}  // namespace weir::plan
