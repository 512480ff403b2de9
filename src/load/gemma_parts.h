// What Gemma 1 (but for norms and caps), 2 and 3 have in common: GeGLU, scaled embeddings, norms around what each
// branch adds, softcaps.
#pragma once

#include "load/families/family.h"

namespace weir::load {

struct GemmaDefaults {
  std::int64_t context = 0;
  double theta = 10000.0;
  double attention_softcap = 0.0, final_softcap = 0.0;  // where the keys are absent; null says none
  bool gelu_is_tanh = false;                            // as in HfDefaults
};

Status read_gemma_config(const JsonFields& config, const GemmaDefaults& defaults, ModelSpec& spec);
Status read_gemma_gguf(const GgufKeys& keys, double default_scale_divisor, ModelSpec& spec);
void name_gemma_tensors(const ModelSpec& spec, TensorMap& map);

}  // namespace weir::load
