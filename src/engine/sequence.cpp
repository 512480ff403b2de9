#include "engine/sequence.h"

#include <algorithm>

namespace weir::engine {
namespace {

std::vector<TokenId> ids_banned_before_min_tokens(const SequenceRequest& request) {
  if (request.sampling.min_tokens <= 0) return {};
  std::vector<TokenId> ids = request.sampling.stop_token_ids;
  if (!request.sampling.ignore_eos) ids.insert(ids.end(), request.eos_ids.begin(), request.eos_ids.end());
  return ids;
}

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

Sequence::Sequence(SeqId id, SequenceRequest new_request, double submitted_s)
    : id(id),
      request(std::move(new_request)),
      sampler(request.sampling, request.prompt, ids_banned_before_min_tokens(request)),
      prompt_tokens(static_cast<std::int64_t>(request.prompt.size())),
      submitted_s(submitted_s),
      logits_read(request.logits_from) {}

bool Sequence::wants_logits_about(std::int64_t position) const {
  if (position >= prompt_tokens) return false;
  if (request.logits != nullptr) return position >= logits_read;
  return wants_prompt_logprobs() && position > static_cast<std::int64_t>(prompt_logprobs.size());
}

bool Sequence::is_end_token(TokenId token) const {
  return (!request.sampling.ignore_eos && contains(request.eos_ids, token)) ||
         contains(request.sampling.stop_token_ids, token);
}

std::optional<FinishReason> Sequence::finish_reason(TokenId token, std::int64_t max_model_len) const {
  if (output_tokens >= request.sampling.min_tokens && is_end_token(token)) return FinishReason::kStop;
  if (output_tokens >= request.sampling.max_tokens) return FinishReason::kLength;
  if (prompt_tokens + output_tokens >= max_model_len) return FinishReason::kLength;
  return std::nullopt;
}

}  // namespace weir::engine
