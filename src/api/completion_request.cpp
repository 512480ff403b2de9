// Bodies of /v1/completions, /tokenize and /detokenize.
#include <limits>

#include "api/request_fields.h"

namespace weir::api {
namespace {

// Prompts times choices. More would fill the engine's queue with one request.
constexpr std::size_t kMaxSequences = 1024;

Result<std::vector<TokenId>> parse_tokens(const Json& list, const std::string& what, TokenId vocab_size) {
  std::vector<TokenId> tokens;
  tokens.reserve(list.size());
  for (const Json& id : list) {
    WEIR_TRY(const TokenId token, to_token(id, what, vocab_size));
    tokens.push_back(token);
  }
  return tokens;
}

Result<Prompt> parse_one_prompt(const Json& prompt, TokenId vocab_size) {
  if (prompt.is_string()) return Prompt(prompt.get<std::string>());
  if (!prompt.is_array()) {
    return fail_at(
        "prompt", ErrorCode::kInvalidArgument,
        "prompt must be a string, a list of strings, a list of token ids or a list of such lists, not hold {}",
        describe_json(prompt));
  }
  if (prompt.empty())
    return fail_at("prompt", ErrorCode::kInvalidArgument,
                   "prompt has an empty list of token ids; at least one is needed");
  WEIR_TRY(auto tokens, parse_tokens(prompt, "prompt", vocab_size));
  return Prompt(std::move(tokens));
}

Result<std::vector<Prompt>> parse_prompts(const Fields& fields, TokenId vocab_size) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) return fail_at("prompt", ErrorCode::kInvalidArgument, "prompt is missing");
  std::vector<Prompt> prompts;
  if (prompt->is_array() && prompt->empty())
    return fail_at("prompt", ErrorCode::kInvalidArgument, "prompt is an empty list");
  const bool several = prompt->is_array() && (prompt->front().is_string() || prompt->front().is_array());
  if (!several) {
    WEIR_TRY(auto one, parse_one_prompt(*prompt, vocab_size));
    prompts.push_back(std::move(one));
    return prompts;
  }
  if (prompt->size() > kMaxSequences) {
    return fail_at("prompt", ErrorCode::kInvalidArgument,
                   "at most {} prompts are possible in one request; there are {}", kMaxSequences, prompt->size());
  }
  for (const Json& item : *prompt) {
    if (item.type() != prompt->front().type()) {
      return fail_at("prompt", ErrorCode::kInvalidArgument, "prompt mixes strings and token ids; use one of them");
    }
    WEIR_TRY(auto one, parse_one_prompt(item, vocab_size));
    prompts.push_back(std::move(one));
  }
  return prompts;
}

}  // namespace

Result<GenerationRequest> parse_completion_request(const Json& body, const ParseContext& context) {
  WEIR_RETURN_IF_ERROR(check_object(body));
  const Fields fields(body);
  GenerationRequest out;
  WEIR_RETURN_IF_ERROR(parse_generation_fields(fields, context, out));
  std::int64_t logprobs = -1;
  WEIR_RETURN_IF_ERROR(fields.integer("logprobs", 0, kMaxLogprobs, logprobs));
  out.logprobs = static_cast<int>(logprobs);
  WEIR_TRY(out.prompts, parse_prompts(fields, context.vocab_size));
  if (out.prompts.size() * static_cast<std::size_t>(out.n) > kMaxSequences) {
    return fail_at("n", ErrorCode::kInvalidArgument,
                   "{} prompts times n {} are more than the {} replies one request may ask for", out.prompts.size(),
                   out.n, kMaxSequences);
  }
  if (!out.max_tokens) out.max_tokens = 16;  // OpenAI's default
  return out;
}

Result<TokenizeRequest> parse_tokenize_request(const Json& body) {
  WEIR_RETURN_IF_ERROR(check_object(body));
  const Fields fields(body);
  TokenizeRequest out;
  WEIR_RETURN_IF_ERROR(fields.string("model", out.model));
  WEIR_RETURN_IF_ERROR(fields.boolean("return_token_strs", out.return_token_strings));
  if (fields.find("prompt")) {
    out.prompt.emplace();
    WEIR_RETURN_IF_ERROR(fields.string("prompt", *out.prompt));
  } else if (fields.find("messages")) {
    WEIR_TRY(out.chat, parse_chat_input(body));
    out.add_special_tokens = false;  // the template writes them
  } else {
    return fail_at("prompt", ErrorCode::kInvalidArgument, "prompt (a string) or messages (a list) is missing");
  }
  WEIR_RETURN_IF_ERROR(fields.boolean("add_special_tokens", out.add_special_tokens));
  return out;
}

Result<DetokenizeRequest> parse_detokenize_request(const Json& body, TokenId vocab_size) {
  WEIR_RETURN_IF_ERROR(check_object(body));
  const Fields fields(body);
  DetokenizeRequest out;
  WEIR_RETURN_IF_ERROR(fields.string("model", out.model));
  const Json* tokens = fields.find("tokens");
  if (!tokens || !tokens->is_array())
    return fail_at("tokens", ErrorCode::kInvalidArgument, "tokens must be a list of token ids");
  WEIR_TRY(out.tokens, parse_tokens(*tokens, "tokens", vocab_size));
  return out;
}

}  // namespace weir::api
