// Log-probabilities of one row of logits.
//
// Deterministic: one pass in ascending id, sums in double, whatever the thread. Cost: O(vocab log k).
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"

namespace weir::sample {

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0f;
  int rank = 0;  // 1 = the most likely
};

struct PositionLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the k best, best first; ties by lower id
};

// `top`: how many of the best to list. The logits must be finite.
PositionLogprobs row_logprobs(std::span<const float> logits, TokenId chosen, int top);

}  // namespace weir::sample
