#include "api/prompt_builder.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace weir::api {
namespace {

std::string special_text(const text::Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_text(*id)) : std::string();
}

// /tokenize takes this much text whatever the context; some seconds of work.
constexpr std::int64_t kCountedBytes = 8 << 20;

// A text whose bytes no max_model_len tokens can spell is refused unread. (Tokens that swallow the white space around
// them or a run of unknown characters can stand for more; no text is mostly that.)
Status check_bytes(const ServedModel& model, std::size_t bytes, TextUse use) {
  std::int64_t limit = 0;
  if (__builtin_mul_overflow(model.max_model_len, static_cast<std::int64_t>(model.longest_token_bytes), &limit))
    return {};
  if (use == TextUse::kCount) limit = std::max(limit, kCountedBytes);
  if (limit == 0 || static_cast<std::int64_t>(bytes) <= limit) return {};
  return fail_at("prompt", ErrorCode::kContextLengthExceeded,
                 "the prompt has {} bytes, but the context of this model is {} tokens, which hold at most {} bytes; "
                 "shorten the prompt",
                 bytes, model.max_model_len, limit);
}

Status check_ids(const ServedModel& model, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) {
    if (id < 0 || id >= model.vocab_size) {
      return fail_at("prompt", ErrorCode::kInvalidArgument,
                     "the prompt gives token {}, but the model has the ids 0 to {}", id, model.vocab_size - 1);
    }
  }
  return {};
}

std::vector<std::string> pieces_of(const text::Tokenizer& tokenizer, std::span<const TokenId> ids, bool skip_special) {
  text::Detokenizer detokenizer(tokenizer, {}, skip_special);
  std::vector<std::string> pieces;
  pieces.reserve(ids.size());
  for (const TokenId id : ids) pieces.push_back(detokenizer.push(id));
  if (!pieces.empty()) pieces.back() += detokenizer.finish();
  return pieces;
}

// What the tokens of a prompt string add to the echoed text. Control tokens the user wrote are shown, those the
// tokenizer put around the text are not, so that the pieces join to the prompt.
std::vector<std::string> echo_of_text(const ServedModel& model, const std::string& prompt,
                                      std::span<const TokenId> ids) {
  const auto joins = [&](const std::vector<std::string>& pieces) {
    return std::accumulate(pieces.begin(), pieces.end(), std::string()) == prompt;
  };
  auto hidden = pieces_of(*model.tokenizer, ids, true);
  if (joins(hidden)) return hidden;
  auto shown = pieces_of(*model.tokenizer, ids, false);
  if (joins(shown)) return shown;
  if (ids.size() > 1) {
    auto rest = pieces_of(*model.tokenizer, ids.subspan(1), false);
    rest.insert(rest.begin(), std::string());
    if (joins(rest)) return rest;
  }
  return hidden;
}

Result<EncodedPrompt> encode_prompt(const ServedModel& model, const GenerationRequest& request, const Prompt& prompt) {
  const auto& tokenizer = *model.tokenizer;
  const bool skip = request.skip_special_tokens;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    WEIR_TRY(auto ids, encode_text(model, *text, request.add_special_tokens, TextUse::kPrompt));
    text::Detokenizer after(tokenizer, ids, skip);
    auto echo = request.echo ? echo_of_text(model, *text, ids) : std::vector<std::string>();
    return EncodedPrompt{std::move(ids), std::move(after), std::move(echo)};
  }
  auto ids = std::get<std::vector<TokenId>>(prompt);
  if (!request.echo) {
    text::Detokenizer after(tokenizer, ids, skip);
    return EncodedPrompt{std::move(ids), std::move(after), {}};
  }
  // A prompt of ids may end inside a character, which the reply completes: prompt and reply are one text.
  text::Detokenizer detokenizer(tokenizer, {}, skip);
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(detokenizer.push(id));
  return EncodedPrompt{std::move(ids), std::move(detokenizer), std::move(pieces)};
}

Status check_length(const ServedModel& model, const EngineClient& engine, std::size_t prompt_tokens,
                    std::optional<std::int64_t> max_tokens) {
  const auto length = static_cast<std::int64_t>(prompt_tokens);
  const std::int64_t room = model.max_model_len - length;
  if (length == 0)
    return fail_at("prompt", ErrorCode::kInvalidArgument, "the prompt is empty: it has no token to start from");
  if (room < 0 || (!max_tokens && room == 0)) {
    return fail_at("prompt", ErrorCode::kContextLengthExceeded,
                   "the prompt has {} tokens, but the context of this model is {} tokens; shorten the prompt", length,
                   model.max_model_len);
  }
  if (max_tokens && *max_tokens > room) {
    return fail_at("max_tokens", ErrorCode::kContextLengthExceeded,
                   "the prompt has {} tokens and {} more are asked for, but the context of this model is {} tokens; "
                   "shorten the prompt or lower max_tokens",
                   length, *max_tokens, model.max_model_len);
  }
  return engine.check_fits(length, max_tokens.value_or(room));
}

}  // namespace

std::size_t longest_token(const text::Tokenizer& tokenizer) {
  std::size_t longest = 1;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id)
    longest = std::max(longest, tokenizer.token_bytes(id, false).size());
  return longest;
}

ReplyFormat make_reply_format(const text::Tokenizer& tokenizer, text::parse::OutputFormat format) {
  ReplyFormat out;
  const auto markers = format.markers();
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_control(id)) continue;
    const std::string_view text = tokenizer.token_bytes(id, false);
    const bool in_marker = !text.empty() && std::any_of(markers.begin(), markers.end(), [&](const std::string& marker) {
      return marker.find(text) != std::string::npos;
    });
    if (in_marker) out.marker_tokens.emplace(id, text);
  }
  out.format = std::make_shared<const text::parse::OutputFormat>(std::move(format));
  return out;
}

namespace {

auto find_template(const ServedModel& model, const ChatInput& chat) {
  const auto it = model.chat_templates.find(chat.tools.is_null() ? "" : "tool_use");
  return it != model.chat_templates.end() ? it : model.chat_templates.find("");
}

// What some templates need that others do not bear: all arguments of past calls as JSON text; no reasoning beside
// content and calls; no arguments but objects, where a model wrote others (then the text is the value of one argument).
// Each returns false if there is nothing to change.
template <class F>
bool change_arguments(Json& messages, F change) {
  bool changed = false;
  for (Json& message : messages) {
    if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) continue;
    for (Json& call : message["tool_calls"]) changed |= change(call["function"]["arguments"]);
  }
  return changed;
}

bool with_argument_objects(Json& messages) {
  return change_arguments(messages, [](Json& arguments) {
    if (!arguments.is_string()) return false;
    arguments = Json::object({{"arguments", arguments}});
    return true;
  });
}

bool with_argument_texts(Json& messages) {
  return change_arguments(messages, [](Json& arguments) {
    if (!arguments.is_object()) return false;
    arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
    return true;
  });
}

bool without_reasoning_of_calls(Json& messages) {
  bool changed = false;
  for (Json& message : messages) {
    if (!message.contains("tool_calls")) continue;
    for (const char* name : {"reasoning_content", "reasoning", "thinking"}) changed |= message.erase(name) > 0;
  }
  return changed;
}

Result<text::Rendered> render_somehow(const text::ChatTemplate& chat_template, text::RenderInput& input) {
  auto rendered = chat_template.render(input);
  if (rendered) return rendered;
  const Json given = input.messages;
  for (const auto change : {with_argument_texts, without_reasoning_of_calls}) {
    if (!change(input.messages)) continue;
    if (auto again = chat_template.render(input)) return again;
  }
  input.messages = given;
  if (with_argument_objects(input.messages)) {
    if (auto again = chat_template.render(input)) return again;
  }
  return rendered;
}

bool has_calls_alone(const Json& messages) {
  return std::ranges::any_of(messages, [](const Json& message) {
    return message.contains("tool_calls") && !message["tool_calls"].empty() && message.value("content", Json("")) == "";
  });
}

// Whether a call that stands alone in its message is part of the prompt, in a short chat with the same variables.
bool shows_calls(const text::ChatTemplate& chat_template, const text::RenderInput& given, bool none_beside_calls) {
  constexpr const char* kName = "weir_probe_of_past_calls";
  text::RenderInput input = given;
  input.none_beside_calls = none_beside_calls;
  if (input.kwargs.is_object()) input.kwargs.erase("continue_final_message");
  const Json call = {
      {"id", "call00001"}, {"type", "function"}, {"function", {{"name", kName}, {"arguments", Json::object()}}}};
  input.messages = Json::array({{{"role", "user"}, {"content", "Hi"}},
                                {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}}});
  const auto rendered = render_somehow(chat_template, input);
  return rendered && rendered->text.find(kName) != std::string::npos;
}

}  // namespace

Result<text::Rendered> render_chat(const ServedModel& model, const ChatInput& chat) {
  const auto it = find_template(model, chat);
  if (it == model.chat_templates.end() && !model.broken_templates.empty()) {
    return fail_at("messages", ErrorCode::kInvalidArgument,
                   "the chat template of this model cannot be used: {}; use /v1/completions, or start the server with "
                   "--chat-template FILE",
                   model.broken_templates.begin()->second);
  }
  if (it == model.chat_templates.end()) {
    return fail_at(
        "messages", ErrorCode::kInvalidArgument,
        "this model has no chat template; use /v1/completions, or start the server with --chat-template FILE");
  }
  text::RenderInput input;
  input.messages = chat.messages;
  input.tools = chat.tools;
  input.kwargs = chat.kwargs;
  input.bos_token = special_text(*model.tokenizer, model.tokenizer->bos());
  input.eos_token = special_text(*model.tokenizer, model.tokenizer->eos());
  input.none_beside_calls =
      has_calls_alone(input.messages) && !shows_calls(it->second, input, false) && shows_calls(it->second, input, true);
  auto rendered = render_somehow(it->second, input);
  if (!rendered) {
    // Whatever the template objects to, it objects to these messages.
    rendered.error().param = "messages";
    rendered.error().message = "the chat template refused the messages: " + rendered.error().message;
  }
  return rendered;
}

namespace {

Result<std::vector<TokenId>> encode_rendered(const ServedModel& model, const text::Rendered& rendered,
                                             bool add_special_tokens, TextUse use) {
  if (auto fits = check_bytes(model, rendered.text.size(), use); !fits) {
    fits.error().param = "messages";
    return tl::unexpected(fits.error());
  }
  auto ids = model.tokenizer->encode(rendered.text, {add_special_tokens, true, rendered.user});
  WEIR_RETURN_IF_ERROR(check_ids(model, ids));
  return ids;
}

std::shared_ptr<const text::parse::ReplySyntax> reply_syntax(const ReplyFormat& format, const ChatInput& chat,
                                                             const text::Rendered& rendered, bool whole_calls) {
  auto syntax = std::make_shared<text::parse::ReplySyntax>();
  syntax->format = format.format;
  syntax->tools = text::parse::ToolSchemas(chat.tools);
  syntax->calls = !chat.tools.is_null();
  syntax->whole_calls = whole_calls;
  const bool continues = chat.kwargs.contains("continue_final_message") && !chat.messages.empty();
  const Json message = continues ? chat.messages.back() : Json();
  const Json* content = message.is_object() ? Fields(message).find("content") : nullptr;
  const bool has_text = content && content->is_string();
  const std::string_view text = has_text ? std::string_view(content->get_ref<const std::string&>()) : "";
  const auto continued = continues ? std::optional(text) : std::nullopt;
  syntax->start = text::parse::reply_start(*format.format, rendered.text, rendered.user, continued);
  return syntax;
}

}  // namespace

Result<std::vector<TokenId>> encode_chat(const ServedModel& model, const ChatInput& chat, bool add_special_tokens,
                                         TextUse use) {
  WEIR_TRY(const auto rendered, render_chat(model, chat));
  return encode_rendered(model, rendered, add_special_tokens, use);
}

// A prompt string is raw: whoever writes it writes the control tokens too.
Result<std::vector<TokenId>> encode_text(const ServedModel& model, const std::string& text, bool add_special_tokens,
                                         TextUse use) {
  WEIR_RETURN_IF_ERROR(check_bytes(model, text.size(), use));
  auto ids = model.tokenizer->encode(text, {add_special_tokens, true, {}});
  WEIR_RETURN_IF_ERROR(check_ids(model, ids));
  return ids;
}

Result<std::vector<EncodedPrompt>> build_prompts(const ServedModel& model, const EngineClient& engine,
                                                 GenerationRequest& request, const ChatInput* chat) {
  std::vector<EncodedPrompt> prompts;
  if (chat) {
    WEIR_TRY(const auto rendered, render_chat(model, *chat));
    WEIR_TRY(auto ids, encode_rendered(model, rendered, request.add_special_tokens, TextUse::kPrompt));
    text::Detokenizer after(*model.tokenizer, ids, request.skip_special_tokens);
    WEIR_RETURN_IF_ERROR(check_length(model, engine, ids.size(), request.max_tokens));
    prompts.push_back({std::move(ids), std::move(after), {}});
    const auto format = model.reply_formats.find(find_template(model, *chat)->first);
    if (format != model.reply_formats.end()) {
      prompts.back().format = &format->second;
      prompts.back().syntax = reply_syntax(format->second, *chat, rendered, !request.stream);
    }
  }
  for (const Prompt& prompt : request.prompts) {
    WEIR_TRY(auto encoded, encode_prompt(model, request, prompt));
    WEIR_RETURN_IF_ERROR(check_length(model, engine, encoded.ids.size(), request.max_tokens));
    prompts.push_back(std::move(encoded));
  }
  if (!request.max_tokens)
    request.max_tokens = model.max_model_len - static_cast<std::int64_t>(prompts.front().ids.size());
  if (request.sampling.min_tokens > *request.max_tokens) {
    return fail_at("min_tokens", ErrorCode::kInvalidArgument, "min_tokens is {}, but max_tokens is {}",
                   request.sampling.min_tokens, *request.max_tokens);
  }
  return prompts;
}

}  // namespace weir::api
