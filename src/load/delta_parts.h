// What Qwen3-Next and Qwen 3.5 share: gated delta nets among layers of attention whose output has a gate.
#pragma once

#include "load/families/family.h"

namespace weir::load {

// All but the feed-forward part.
Status read_hf_delta_decoder(const JsonFields& config, const HfDefaults& defaults, ParsedModel& model);
Status read_gguf_delta_decoder(const GgufKeys& keys, ModelSpec& spec);
// Experts, if the file has any, and one that all tokens share.
Status read_gguf_delta_experts(const GgufKeys& keys, ModelSpec& spec);

// Names that both spell alike; those of a delta net's projections differ.
void name_hf_delta(const ModelSpec& spec, TensorMap& map);
void name_gguf_delta(const ModelSpec& spec, TensorMap& map);

}  // namespace weir::load
