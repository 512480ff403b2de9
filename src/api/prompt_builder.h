// Prompts of requests -> token ids: chat template, tokenizer, length check. Pure functions of the model; any thread.
#pragma once

#include <string>
#include <vector>

#include "api/engine_client.h"
#include "api/generation_request.h"
#include "api/served_model.h"
#include "text/detokenizer.h"

namespace weir::api {

struct EncodedPrompt {
  std::vector<TokenId> ids;
  text::Detokenizer reply_text;          // ready for the first token of a reply
  std::vector<std::string> echo_pieces;  // with echo: what each prompt token adds to the text
};

Result<text::Rendered> render_chat(const ServedModel& model, const ChatInput& chat);
Result<std::vector<TokenId>> encode_chat(const ServedModel& model, const ChatInput& chat, bool add_special_tokens);
Result<std::vector<TokenId>> encode_text(const ServedModel& model, const std::string& text, bool add_special_tokens);

// The request's prompts (`chat` for chats), checked against the context length; fills in max_tokens where the request
// leaves it open.
Result<std::vector<EncodedPrompt>> build_prompts(const ServedModel& model, const EngineClient& engine,
                                                 GenerationRequest& request, const ChatInput* chat);

}  // namespace weir::api
