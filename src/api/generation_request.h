// GenerationRequest: a completion or chat request, checked, in weir's own terms. Where OpenAI and vLLM name a field, it
// has their meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "sample/sampling_params.h"

namespace weir::api {

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct GenerationRequest {
  bool chat = false;
  std::string model;            // empty: whichever is served
  std::vector<Prompt> prompts;  // completions only; a chat has its messages instead (ChatInput)

  sample::SamplingParams sampling;         // all but seed, max_tokens and prompt_logprobs is final
  std::optional<std::int64_t> max_tokens;  // of the reply
  std::optional<std::uint64_t> seed;
  int n = 1;
  std::vector<std::string> stop;
  bool include_stop = false;
  int logprobs = -1;         // what the reply shows: -1 none, 0 the chosen tokens, k the k best too
  int prompt_logprobs = -1;  // the same, of the prompt
  int priority = 0;
  std::string cache_salt;

  bool include_reasoning = true;
  bool parallel_tool_calls = true;  // false: the reply's first call is the only one
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // "token_id:5" instead of text in logprobs
  bool skip_special_tokens = true;
  bool add_special_tokens = true;
};

}  // namespace weir::api
