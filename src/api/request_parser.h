// JSON bodies -> checked requests. Unknown fields are ignored, as OpenAI clients expect; known ones must have the right
// type and range, and those that would change the answer in a way weir does not have yet are refused, never dropped.
// What a chat's template is told can be said in a field or in chat_template_kwargs; saying different things is refused.
#pragma once

#include <optional>
#include <string>

#include "api/generation_request.h"
#include "api/json_fields.h"
#include "base/result.h"

namespace weir::api {

// What a chat template is given.
struct ChatInput {
  Json messages = Json::array();
  Json tools = nullptr;
  Json kwargs = Json::object();  // with add_generation_prompt and continue_final_message in it
};

// What a field holds when a request does not say: the model's own recommendations.
struct SamplingDefaults {
  std::optional<float> temperature, top_p, repetition_penalty;
  std::optional<int> top_k;
};

struct ParseContext {
  TokenId vocab_size = 0;  // ids are in [0, vocab_size)
  SamplingDefaults defaults;
};

Result<GenerationRequest> parse_completion_request(const Json& body, const ParseContext& context);

struct ChatRequest {
  GenerationRequest generation;
  ChatInput chat;
};
Result<ChatRequest> parse_chat_request(const Json& body, const ParseContext& context);

// The part of a chat request that makes the prompt; also the body of /apply-template and of /tokenize with messages.
Result<ChatInput> parse_chat_input(const Json& body);

struct TokenizeRequest {
  std::string model;
  std::optional<std::string> prompt;  // else `chat`
  ChatInput chat;
  bool add_special_tokens = true;
  bool return_token_strings = false;
};
Result<TokenizeRequest> parse_tokenize_request(const Json& body);

struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};
Result<DetokenizeRequest> parse_detokenize_request(const Json& body, TokenId vocab_size);

}  // namespace weir::api
