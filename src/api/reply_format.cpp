#include "api/reply_format.h"

#include <algorithm>

#include "api/errors.h"
#include "api/json_writer.h"
#include "text/detokenizer.h"

namespace weir::api {
namespace {

class Writer {
 public:
  Writer(std::string& out, const ReplyFrame& frame) : frame_(&frame), request_(frame.request), json_(out) {}

  JsonWriter& json() { return json_; }

  void open(std::string_view object) {
    json_.begin_object().key("id").string(frame_->id).key("object").string(object);
    json_.key("created").integer(frame_->created_s).key("model").string(frame_->model->name);
    json_.key("system_fingerprint").null().key("choices").begin_array();
  }

  void usage(const Usage& usage) {
    json_.key("usage").begin_object().key("prompt_tokens").integer(usage.prompt_tokens);
    json_.key("completion_tokens").integer(usage.completion_tokens);
    json_.key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens);
    json_.key("prompt_tokens_details").begin_object().key("cached_tokens").integer(usage.cached_tokens).end_object();
    json_.end_object();
  }

  // The name that vLLM gave it first and the one it has now: clients look for either.
  void reasoning(const std::string& text) { json_.key("reasoning_content").string(text).key("reasoning").string(text); }

  void calls(const std::vector<text::parse::CallDelta>& calls, bool pieces) {
    if (calls.empty()) return;
    json_.key("tool_calls").begin_array();
    for (const auto& call : calls) {
      json_.begin_object();
      if (pieces) json_.key("index").integer(call.index);
      if (call.first) json_.key("id").string(call.id).key("type").string("function");
      json_.key("function").begin_object();
      if (call.first) json_.key("name").string(call.name);
      json_.key("arguments").string(call.arguments).end_object().end_object();
    }
    json_.end_array();
  }

  void message(const ReplyPart& part) {
    json_.key("message").begin_object().key("role").string("assistant").key("content");
    if (part.text.empty() && !(part.calls.empty() && part.reasoning.empty())) {
      json_.null();
    } else {
      json_.string(part.text);
    }
    json_.key("refusal").null();
    if (!part.reasoning.empty()) reasoning(part.reasoning);
    calls(part.calls, false);
    json_.end_object();
  }

  // Everything of a choice but its text.
  void rest_of_choice(const ReplyChoice& choice, bool with_prompt) {
    const ReplyPart& part = *choice.part;
    json_.key("logprobs");
    if (request_->logprobs < 0) {
      json_.null();
    } else if (request_->chat) {
      chat_logprobs(part.entries);
    } else {
      completion_logprobs(part.entries);
    }
    json_.key("finish_reason");
    if (part.finish) {
      json_.string(part.finish->reason);
    } else {
      json_.null();
    }
    json_.key("stop_reason");
    stop_reason(part.finish);
    if (request_->return_token_ids) {
      json_.key("token_ids");
      ids(part.tokens);
    }
    if (!request_->chat && with_prompt) prompt_fields(choice);
  }

  void prompt_fields(const ReplyChoice& choice) {
    if (request_->return_token_ids) {
      json_.key("prompt_token_ids");
      ids(*choice.prompt);
    }
    if (request_->prompt_logprobs >= 0) {
      json_.key("prompt_logprobs");
      prompt_logprobs(*choice.prompt, choice.part->prompt_logprobs);
    }
  }

 private:
  void ids(const std::vector<TokenId>& tokens) {
    json_.begin_array();
    for (const TokenId id : tokens) json_.integer(id);
    json_.end_array();
  }

  void stop_reason(const std::optional<Finish>& finish) {
    if (finish && std::holds_alternative<TokenId>(finish->stop_reason)) {
      json_.integer(std::get<TokenId>(finish->stop_reason));
    } else if (finish && std::holds_alternative<std::string>(finish->stop_reason)) {
      json_.string(std::get<std::string>(finish->stop_reason));
    } else {
      json_.null();
    }
  }

  const text::Tokenizer& tokenizer() const { return *frame_->model->tokenizer; }

  std::string name(TokenId id) const {
    return request_->tokens_as_ids ? fmt::format("token_id:{}", id) : token_name(tokenizer(), id);
  }

  std::string chosen_name(const TokenEntry& entry) const {
    // A control token the reply's text leaves out is still named. Those around an echoed prompt are not, so that the
    // names join to the text.
    const bool left_out = entry.piece.empty() && !entry.of_prompt && tokenizer().is_control(entry.id);
    return request_->tokens_as_ids || left_out ? name(entry.id) : entry.piece;
  }

  void completion_logprobs(const std::vector<TokenEntry>& entries) {
    json_.begin_object().key("text_offset").begin_array();
    for (const auto& entry : entries) json_.integer(entry.text_offset);
    json_.end_array().key("token_logprobs").begin_array();
    for (const auto& entry : entries) {
      if (entry.logprobs) {
        json_.logprob(entry.logprobs->chosen.logprob);
      } else {
        json_.null();
      }
    }
    json_.end_array().key("tokens").begin_array();
    for (const auto& entry : entries) json_.string(chosen_name(entry));
    json_.end_array().key("top_logprobs").begin_array();
    for (const auto& entry : entries) top_by_name(entry);
    json_.end_array().end_object();
  }

  // The k best and the chosen one, as an object: names must differ.
  void top_by_name(const TokenEntry& entry) {
    if (!entry.logprobs) {
      json_.null();
      return;
    }
    const std::string chosen = chosen_name(entry);
    std::vector<std::string> used = {chosen};
    bool chosen_written = false;
    json_.begin_object();
    for (const auto& top : best(entry.logprobs->top, request_->logprobs)) {
      if (top.id == entry.id) {
        json_.key(chosen).logprob(top.logprob);
        chosen_written = true;
        continue;
      }
      std::string key = name(top.id);
      if (std::find(used.begin(), used.end(), key) != used.end()) key = fmt::format("token_id:{}", top.id);
      json_.key(key).logprob(top.logprob);
      used.push_back(std::move(key));
    }
    if (!chosen_written) json_.key(chosen).logprob(entry.logprobs->chosen.logprob);
    json_.end_object();
  }

  static std::span<const engine::TokenLogprob> best(const std::vector<engine::TokenLogprob>& top, int k) {
    return std::span(top).first(std::min(top.size(), static_cast<std::size_t>(std::max(k, 0))));
  }

  void chat_entry(const engine::TokenLogprob& token) {
    json_.key("token").string(name(token.id)).key("logprob").logprob(token.logprob).key("bytes").begin_array();
    for (const char c : tokenizer().token_bytes(token.id, false))
      json_.integer(static_cast<int>(static_cast<unsigned char>(c)));
    json_.end_array();
  }

  void chat_logprobs(const std::vector<TokenEntry>& entries) {
    json_.begin_object().key("content").begin_array();
    for (const auto& entry : entries) {
      if (!entry.logprobs) continue;
      json_.begin_object();
      chat_entry(entry.logprobs->chosen);
      json_.key("top_logprobs").begin_array();
      for (const auto& top : best(entry.logprobs->top, request_->logprobs)) {
        json_.begin_object();
        chat_entry(top);
        json_.end_object();
      }
      json_.end_array().end_object();
    }
    json_.end_array().end_object();
  }

  void prompt_logprobs(const std::vector<TokenId>& prompt, const std::vector<engine::PositionLogprobs>& positions) {
    json_.begin_array();
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      if (i == 0 || i > positions.size()) {
        json_.null();
        continue;
      }
      const auto& at = positions[i - 1];
      bool chosen_written = false;
      json_.begin_object();
      for (const auto& top : best(at.top, request_->prompt_logprobs)) {
        prompt_entry(top);
        chosen_written |= top.id == at.chosen.id;
      }
      if (!chosen_written) prompt_entry(at.chosen);
      json_.end_object();
    }
    json_.end_array();
  }

  void prompt_entry(const engine::TokenLogprob& token) {
    json_.key(std::to_string(token.id)).begin_object().key("logprob").logprob(token.logprob);
    json_.key("rank").integer(token.rank).key("decoded_token").string(token_name(tokenizer(), token.id)).end_object();
  }

  const ReplyFrame* frame_;
  const GenerationRequest* request_;
  JsonWriter json_;
};

void append_choice_event(std::string& out, const ReplyFrame& frame, const ReplyChoice& choice, bool role,
                         bool with_prompt, const Usage& usage) {
  out.append("data: ");
  Writer w(out, frame);
  auto& json = w.json();
  w.open(frame.request->chat ? "chat.completion.chunk" : "text_completion");
  json.begin_object().key("index").integer(choice.index);
  if (frame.request->chat) {
    json.key("delta").begin_object();
    if (role) json.key("role").string("assistant");
    if (!choice.part->reasoning.empty()) w.reasoning(choice.part->reasoning);
    if (role || !choice.part->text.empty()) json.key("content").string(choice.part->text);
    w.calls(choice.part->calls, true);
    json.end_object();
  } else {
    json.key("text").string(choice.part->text);
  }
  w.rest_of_choice(choice, with_prompt);
  json.end_object().end_array();
  if (frame.request->chat && with_prompt) w.prompt_fields(choice);
  if (frame.request->continuous_usage) {
    w.usage(usage);
  } else if (frame.request->include_usage) {
    json.key("usage").null();
  }
  json.end_object();
  out.append("\n\n");
}

}  // namespace

std::string token_name(const text::Tokenizer& tokenizer, TokenId id) {
  const std::string_view bytes = tokenizer.token_bytes(id, false);
  std::string text = text::sanitise_utf8(bytes);
  if (text == bytes) return text;
  text = "bytes:";
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string whole_reply(const ReplyFrame& frame, const std::vector<ReplyChoice>& choices, const Usage& usage) {
  std::string out;
  Writer w(out, frame);
  auto& json = w.json();
  w.open(frame.request->chat ? "chat.completion" : "text_completion");
  for (const auto& choice : choices) {
    json.begin_object().key("index").integer(choice.index);
    if (frame.request->chat) {
      w.message(*choice.part);
    } else {
      json.key("text").string(choice.part->text);
    }
    w.rest_of_choice(choice, true);
    json.end_object();
  }
  json.end_array();
  if (frame.request->chat) w.prompt_fields(choices.front());
  w.usage(usage);
  json.end_object();
  return out;
}

void append_part_event(std::string& out, const ReplyFrame& frame, const ReplyChoice& choice, bool first,
                       const Usage& usage) {
  bool with_prompt = first;
  if (first && frame.request->chat) {
    // The role comes in an event of its own, with what is known of the prompt.
    ReplyPart role;
    role.prompt_logprobs = choice.part->prompt_logprobs;
    append_choice_event(out, frame, {choice.index, &role, choice.prompt}, true, true,
                        {usage.prompt_tokens, 0, usage.cached_tokens});
    with_prompt = false;
  }
  append_choice_event(out, frame, choice, false, with_prompt, usage);
}

void append_usage_event(std::string& out, const ReplyFrame& frame, const Usage& usage) {
  out.append("data: ");
  Writer w(out, frame);
  w.open(frame.request->chat ? "chat.completion.chunk" : "text_completion");
  w.json().end_array();
  w.usage(usage);
  w.json().end_object();
  out.append("\n\n");
}

void append_error_event(std::string& out, const Error& error) {
  out.append("data: ").append(error_body(error)).append("\n\n");
}

}  // namespace weir::api
