// Replies as OpenAI and vLLM write them: whole bodies and stream chunks of completions and chats. Pure text work, no
// state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/reply_text.h"
#include "api/served_model.h"

namespace weir::api {

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

// What all messages of one reply have in common.
struct ReplyFrame {
  const GenerationRequest* request = nullptr;
  const ServedModel* model = nullptr;
  std::string id;  // "cmpl-..." or "chatcmpl-..."
  std::int64_t created_s = 0;
};

struct ReplyChoice {
  int index = 0;
  const ReplyPart* part = nullptr;
  const std::vector<TokenId>* prompt = nullptr;
};

std::string whole_reply(const ReplyFrame& frame, const std::vector<ReplyChoice>& choices, const Usage& usage);

// Stream events, "data: {...}\n\n" each, appended to `out`. `first`: nothing of this choice has been sent yet.
void append_part_event(std::string& out, const ReplyFrame& frame, const ReplyChoice& choice, bool first,
                       const Usage& usage);
void append_usage_event(std::string& out, const ReplyFrame& frame, const Usage& usage);
void append_error_event(std::string& out, const Error& error);
constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

// How a token is called in logprobs, apart from the token that was chosen: its text, or "bytes:\xf0\x9f" where it is no
// text alone.
std::string token_name(const text::Tokenizer& tokenizer, TokenId id);

}  // namespace weir::api
