// What DeepSeek V2, V3 and V3.2 have in common: multi-head latent attention and its names.
#pragma once

#include "load/families/family.h"

namespace weir::load {

// Sizes, rotations and scale of latent attention, in every layer. `interleaved`: pairs that turn together are adjacent.
Status read_hf_latent(const JsonFields& config, bool interleaved, ParsedModel& model);
void name_hf_latent(const ModelSpec& spec, TensorMap& map);

}  // namespace weir::load
