// Sequence: what the engine knows about one running sequence beyond what the scheduler needs. Engine thread only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "sample/sampler.h"

namespace weir::engine {

struct Sequence {
  Sequence(SeqId id, SequenceRequest request, double submitted_s);

  SeqId id;
  SequenceRequest request;
  sample::Sampler sampler;
  std::int64_t prompt_tokens;
  std::int64_t output_tokens = 0;
  double submitted_s;
  double scheduled_s = 0.0;                       // 0 = not yet
  std::vector<PositionLogprobs> prompt_logprobs;  // of prompt tokens 1, 2, ... as far as they are known

  std::string failure;  // why it cannot go on; empty: it can

  std::int64_t logits_read = 0;  // the request's reader has had those about the prompt's tokens before this one

  bool wants_prompt_logprobs() const { return request.sampling.prompt_logprobs >= 0; }
  // Whether somebody wants to know what the model thinks of the prompt's token number `position`.
  bool wants_logits_about(std::int64_t position) const;
  // The reason to end with `token` as the newest output (already counted), if there is one.
  std::optional<FinishReason> finish_reason(TokenId token, std::int64_t max_model_len) const;
  bool is_end_token(TokenId token) const;
};

}  // namespace weir::engine
