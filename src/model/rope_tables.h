// Rotary frequencies of a RopeSpec, and rows of cos/sin tables made from them.
//
// Frequencies as Hugging Face transformers computes them for "default", "linear", "llama3", "yarn" (Peng et al. 2023)
// and "longrope" (Ding et al. 2024), in double precision; GGUF's rope_freqs.weight divides them.
#pragma once

#include <cstdint>
#include <vector>

#include "load/model_spec.h"

namespace weir::model {

struct RopeFrequencies {
  std::vector<double> radians_per_token;  // [dims / 2]
  double magnitude = 1.0;                 // multiplies cos and sin (YaRN's attention factor)
  // Of sequences longer than `long_from`; empty: there is no difference.
  std::vector<double> long_radians_per_token;
  std::int64_t long_from = 0;
  // RopeSpec's growth, every so many positions; 0: none.
  double growth = 0.0;
  std::int64_t grows_every = 1;
};

RopeFrequencies rope_frequencies(const load::RopeSpec& rope);

// cos and sin [dims / 2] for one position of a sequence of which `known` tokens are known.
void fill_rope_row(const RopeFrequencies& frequencies, std::int64_t position, std::int64_t known, float* cos,
                   float* sin);

}  // namespace weir::model
