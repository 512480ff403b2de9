// What Granite's models have in common: multipliers on embeddings, attention scores, residual branches and logits.
#pragma once

#include "load/families/family.h"

namespace weir::load {

// All but the feed-forward part.
Status read_hf_granite(const JsonFields& config, ParsedModel& model);
Status read_gguf_granite(const GgufKeys& keys, ParsedModel& model);

}  // namespace weir::load
