// Prompts of requests -> token ids: chat template, tokenizer, length check. Pure functions of the model; any thread.
#pragma once

#include <string>
#include <vector>

#include "api/engine_client.h"
#include "api/generation_request.h"
#include "api/served_model.h"
#include "text/detokenizer.h"
#include "text/parse/output_parser.h"

namespace weir::api {

struct EncodedPrompt {
  std::vector<TokenId> ids;
  text::Detokenizer reply_text;          // ready for the first token of a reply
  std::vector<std::string> echo_pieces;  // with echo: what each prompt token adds to the text
  // How the reply is read; null: it is just text.
  std::shared_ptr<const text::parse::ReplySyntax> syntax = nullptr;
  const ReplyFormat* format = nullptr;  // of the model, with `syntax`
};

ReplyFormat make_reply_format(const text::Tokenizer& tokenizer, text::parse::OutputFormat format);

// The bytes of text that one token can stand for, at most.
std::size_t longest_token(const text::Tokenizer& tokenizer);

Result<text::Rendered> render_chat(const ServedModel& model, const ChatInput& chat);

// What a text is for decides how long it may be. Both limits are checked before the text is tokenised, which takes
// time.
enum class TextUse {
  kPrompt,  // must fit the context
  kCount,   // may be longer: whoever asks wants to know by how much
};
Result<std::vector<TokenId>> encode_chat(const ServedModel& model, const ChatInput& chat, bool add_special_tokens,
                                         TextUse use);
Result<std::vector<TokenId>> encode_text(const ServedModel& model, const std::string& text, bool add_special_tokens,
                                         TextUse use);

// The request's prompts (`chat` for chats), checked against the context length; fills in max_tokens where the request
// leaves it open.
Result<std::vector<EncodedPrompt>> build_prompts(const ServedModel& model, const EngineClient& engine,
                                                 GenerationRequest& request, const ChatInput* chat);

}  // namespace weir::api
