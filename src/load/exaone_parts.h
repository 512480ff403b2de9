// What EXAONE 4 and K-EXAONE have in common: head norms, and windowed layers that alone have a position embedding.
#pragma once

#include "load/families/family.h"

namespace weir::load {

// All of attention.
Status read_hf_exaone(const JsonFields& config, ModelSpec& spec);
Status read_gguf_exaone(const GgufKeys& keys, ModelSpec& spec);

}  // namespace weir::load
