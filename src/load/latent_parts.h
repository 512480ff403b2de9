// What DeepSeek V2, V3 and V3.2 and relatives have in common: multi-head latent attention, the indexers of sparse
// attention, and their names.
#pragma once

#include "load/families/family.h"

namespace weir::load {

// Sizes, rotations and scale of latent attention, in every layer. `interleaved`: pairs that turn together are adjacent.
Status read_hf_latent(const JsonFields& config, bool interleaved, ParsedModel& model);
void name_hf_latent(const ModelSpec& spec, TensorMap& map);

// The indexer of every layer. `pairing`: of the angles that turn the beginning of its heads.
Status read_hf_indexer(const JsonFields& config, RopeSpec::Pairing pairing, ModelSpec& spec);
void name_hf_indexed(const ModelSpec& spec, TensorMap& map);  // all names of attention

}  // namespace weir::load
