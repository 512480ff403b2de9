// SamplingParams: how the tokens of one sequence are chosen. Checked by api/ against the ranges given here.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace weir::sample {

struct SamplingParams {
  float temperature = 1.0f;                           // [0, 2]; below 1e-5 greedy
  int top_k = 0;                                      // 0 or -1: off
  float top_p = 1.0f;                                 // (0, 1]
  float min_p = 0.0f;                                 // [0, 1]
  float repetition_penalty = 1.0f;                    // [1e-6, 100]: over prompt and output; > 1 discourages
  float presence_penalty = 0.0f;                      // [-2, 2]: over the output
  float frequency_penalty = 0.0f;                     // [-2, 2]: over the output, per occurrence
  std::vector<std::pair<TokenId, float>> logit_bias;  // ids in the vocabulary, values clamped to [-100, 100]
  std::uint64_t seed = 0;                             // noise is a function of (seed, position)
  std::int64_t max_tokens = 16;  // 0: the prompt is processed (for its logprobs) and nothing sampled
  std::int64_t min_tokens = 0;   // no stop or end token before this many
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  int logprobs = -1;         // -1 = none; 0 = the chosen token; k = and the k best. At most 20
  int prompt_logprobs = -1;  // the same for every prompt token
};

}  // namespace weir::sample
