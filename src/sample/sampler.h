// Sampler: one row of logits -> one token, for one sequence.
//
// Order (vLLM's): minimum length and logit bias, then penalties, temperature, min_p, top_k, top_p, draw. The draw
// inverts the cumulative distribution at uniform(seed, position): the token depends on the logits, the parameters, the
// sequence's own tokens, the seed and the position, and on nothing that happens beside it. The same function serves
// plain decoding, verification of drafts and beam search. Cost: O(vocab); no full sort (candidates are found by partial
// selection). Threads: one per sequence; different sequences in parallel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "sample/sampling_params.h"

namespace weir::sample {

// What choosing from the best tokens needs beside the row; as large as a vocabulary, so threads have one each and not
// sequences.
struct SamplerScratch {
  struct Candidate {
    float weight;  // relative to the best token's
    TokenId id;
  };
  std::vector<Candidate> candidates;
};

class Sampler {
 public:
  // `end_ids`: ids that may not come before min_tokens (end-of-text and stop ids), empty without min_tokens.
  Sampler(const SamplingParams& params, std::span<const TokenId> prompt, std::vector<TokenId> end_ids);

  // Chooses the token at `position` (its index in prompt + output). `logits` is changed. nullopt: the row holds a NaN
  // or no finite value, i.e. the model is broken; the caller ends the sequence with an error.
  std::optional<TokenId> sample(std::span<float> logits, std::int64_t position, SamplerScratch& scratch);

  // The token has become part of the output.
  void accept(TokenId token);

 private:
  void apply_bias_and_penalties(std::span<float> logits) const;
  TokenId draw_from_all(std::span<const float> weights, double noise) const;
  TokenId draw_from_best(std::span<const float> weights, double noise, SamplerScratch& scratch) const;

  SamplingParams params_;
  std::vector<TokenId> end_ids_;
  std::int64_t output_tokens_ = 0;
  bool counts_tokens_ = false;                        // some penalty is on
  std::unordered_map<TokenId, std::int32_t> output_;  // occurrences in the output
  std::unordered_map<TokenId, std::int32_t> seen_;    // in prompt or output
};

}  // namespace weir::sample
