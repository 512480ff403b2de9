#include "api/request_fields.h"

#include <array>
#include <charconv>
#include <limits>
#include <map>

#include "load/limits.h"

namespace weir::api {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
// OpenAI's limit. More choices of one prompt are better asked for in several requests.
constexpr std::int64_t kMaxChoices = 128;
constexpr std::size_t kMaxStops = 16;
// Together with kMaxStops bounds the stop automaton and what a stream may hold back.
constexpr std::size_t kMaxStopBytes = 4096;
constexpr std::size_t kMaxStopTokens = 1024;

Status parse_stop(const Fields& fields, GenerationRequest& out) {
  const Json* stop = fields.find("stop");
  if (!stop) return {};
  const auto add = [&](const Json& text) -> Status {
    if (!text.is_string()) {
      return fail_at("stop", ErrorCode::kInvalidArgument, "stop must be a string or a list of strings, not hold {}",
                     describe_json(text));
    }
    const auto& value = text.get_ref<const std::string&>();
    if (value.empty() || value.size() > kMaxStopBytes) {
      return fail_at("stop", ErrorCode::kInvalidArgument, "a stop string has 1 to {} bytes; one has {}", kMaxStopBytes,
                     value.size());
    }
    out.stop.push_back(value);
    return {};
  };
  if (!stop->is_array()) return add(*stop);
  if (stop->size() > kMaxStops) {
    return fail_at("stop", ErrorCode::kInvalidArgument, "at most {} stop strings are possible; there are {}", kMaxStops,
                   stop->size());
  }
  for (const Json& text : *stop) WEIR_RETURN_IF_ERROR(add(text));
  return {};
}

Status parse_stop_tokens(const Fields& fields, TokenId vocab_size, GenerationRequest& out) {
  const Json* ids = fields.find("stop_token_ids");
  if (!ids) return {};
  if (!ids->is_array() || ids->size() > kMaxStopTokens) {
    return fail_at("stop_token_ids", ErrorCode::kInvalidArgument,
                   "stop_token_ids must be a list of at most {} token ids", kMaxStopTokens);
  }
  for (const Json& id : *ids) {
    WEIR_TRY(const TokenId token, to_token(id, "stop_token_ids", vocab_size));
    out.sampling.stop_token_ids.push_back(token);
  }
  return {};
}

Status parse_logit_bias(const Fields& fields, TokenId vocab_size, GenerationRequest& out) {
  const Json* bias = fields.find("logit_bias");
  if (!bias) return {};
  if (!bias->is_object()) {
    return fail_at("logit_bias", ErrorCode::kInvalidArgument,
                   "logit_bias must be an object of token ids and numbers, not {}", describe_json(*bias));
  }
  std::map<TokenId, float> by_token;
  for (const auto& [key, value] : bias->items()) {
    TokenId token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 || token >= vocab_size) {
      return fail_at("logit_bias", ErrorCode::kInvalidArgument,
                     "logit_bias has the key '{}'; token ids here are 0 to {}", key.substr(0, 40), vocab_size - 1);
    }
    if (!value.is_number()) {
      return fail_at("logit_bias", ErrorCode::kInvalidArgument, "logit_bias of token {} must be a number, not {}",
                     token, describe_json(value));
    }
    by_token[token] = static_cast<float>(std::clamp(value.get<double>(), -100.0, 100.0));
  }
  out.sampling.logit_bias.assign(by_token.begin(), by_token.end());
  return {};
}

Status parse_stream_options(const Fields& fields, GenerationRequest& out) {
  const Json* options = fields.find("stream_options");
  if (!options) return {};
  if (!options->is_object()) {
    return fail_at("stream_options", ErrorCode::kInvalidArgument, "stream_options must be an object, not {}",
                   describe_json(*options));
  }
  if (!out.stream)
    return fail_at("stream_options", ErrorCode::kInvalidArgument,
                   "stream_options are for requests with \"stream\": true");
  const Fields inner(*options, "stream_options.");
  WEIR_RETURN_IF_ERROR(inner.boolean("include_usage", out.include_usage));
  bool continuous = false;
  WEIR_RETURN_IF_ERROR(inner.boolean("continuous_usage_stats", continuous));
  out.continuous_usage = out.include_usage && continuous;
  return {};
}

Status parse_sampling(const Fields& fields, const ParseContext& context, GenerationRequest& out) {
  auto& s = out.sampling;
  const auto& d = context.defaults;
  s.temperature = d.temperature.value_or(s.temperature);
  s.top_p = d.top_p.value_or(s.top_p);
  s.top_k = d.top_k.value_or(s.top_k);
  s.repetition_penalty = d.repetition_penalty.value_or(s.repetition_penalty);

  WEIR_RETURN_IF_ERROR(fields.number("temperature", 0, 2, s.temperature));
  WEIR_RETURN_IF_ERROR(fields.number("top_p", 0, 1, s.top_p, true));
  std::int64_t top_k = s.top_k;
  WEIR_RETURN_IF_ERROR(fields.integer("top_k", -1, std::numeric_limits<std::int32_t>::max(), top_k));
  s.top_k = static_cast<int>(std::max<std::int64_t>(top_k, 0));
  WEIR_RETURN_IF_ERROR(fields.number("min_p", 0, 1, s.min_p));
  WEIR_RETURN_IF_ERROR(fields.number("repetition_penalty", load::kMinRepetitionPenalty, load::kMaxRepetitionPenalty,
                                     s.repetition_penalty));
  WEIR_RETURN_IF_ERROR(fields.number("presence_penalty", -2, 2, s.presence_penalty));
  WEIR_RETURN_IF_ERROR(fields.number("frequency_penalty", -2, 2, s.frequency_penalty));
  WEIR_RETURN_IF_ERROR(parse_logit_bias(fields, context.vocab_size, out));

  if (const Json* seed = fields.find("seed")) {
    if (seed->is_number_unsigned()) {
      out.seed = seed->get<std::uint64_t>();
    } else if (auto number = to_integer(*seed, "seed", std::numeric_limits<std::int64_t>::min(), kMaxInt); number) {
      out.seed = static_cast<std::uint64_t>(*number);
    } else {
      // Its message names the range of the signed numbers only.
      return fail_at(
          "seed", ErrorCode::kInvalidArgument, "seed must be a whole number of 64 bits, from {} to {}, not {}",
          std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::uint64_t>::max(), describe_json(*seed));
    }
  }
  return {};
}

// Fields of OpenAI and vLLM that weir does not have yet and that would change the answer.
Status refuse_unsupported(const Fields& fields) {
  constexpr std::array kFields = {"suffix",
                                  "use_beam_search",
                                  "bad_words",
                                  "allowed_token_ids",
                                  "truncate_prompt_tokens",
                                  "logits_processors",
                                  "prompt_embeds",
                                  "audio",
                                  "kv_transfer_params",
                                  "chat_template",
                                  "functions"};
  for (const char* name : kFields) {
    const Json* value = fields.find(name);
    if (!value || *value == Json(false) || (value->is_string() && value->get_ref<const std::string&>().empty()) ||
        (value->is_structured() && value->empty())) {
      continue;
    }
    return fail_at(name, ErrorCode::kUnsupported, "{} is not supported yet; leave it out", name);
  }
  return {};
}

// Fields of which some values ask for what every reply is anyway.
Status refuse_unsupported_values(const Fields& fields) {
  if (const Json* call = fields.find("function_call"); call && *call != "none" && *call != "auto") {
    return fail_at("function_call", ErrorCode::kUnsupported,
                   "function_call is not supported yet but for \"none\" and \"auto\"; leave it out");
  }
  if (const Json* modalities = fields.find("modalities"); modalities && *modalities != Json::array({"text"})) {
    return fail_at("modalities", ErrorCode::kUnsupported, "modalities can only be [\"text\"]: this model writes text");
  }
  if (fields.find("web_search_options")) {  // an empty object asks for a search too
    return fail_at("web_search_options", ErrorCode::kUnsupported,
                   "web_search_options: this server searches nothing; leave it out");
  }
  bool detokenize = true;
  WEIR_RETURN_IF_ERROR(fields.boolean("detokenize", detokenize));
  if (!detokenize)
    return fail_at("detokenize", ErrorCode::kUnsupported, "detokenize false is not supported; leave it out");
  return {};
}

// Fields that cannot change what this server answers: notes for a bill or a log, hints to make it faster, parameters of
// beam search. They need the right type only.
Status check_harmless(const Fields& fields) {
  using Is = bool (Json::*)() const noexcept;
  struct Harmless {
    const char* name;
    Is is;
    const char* type;
  };
  constexpr Is kObject = &Json::is_object, kString = &Json::is_string, kBoolean = &Json::is_boolean;
  constexpr std::array kFields = {Harmless{"metadata", kObject, "an object"},
                                  Harmless{"prediction", kObject, "an object"},
                                  Harmless{"user", kString, "a string"},
                                  Harmless{"safety_identifier", kString, "a string"},
                                  Harmless{"prompt_cache_key", kString, "a string"},
                                  Harmless{"service_tier", kString, "a string"},
                                  Harmless{"verbosity", kString, "a string"},
                                  Harmless{"request_id", kString, "a string"},
                                  Harmless{"store", kBoolean, "true or false"},
                                  Harmless{"parallel_tool_calls", kBoolean, "true or false"},
                                  Harmless{"spaces_between_special_tokens", kBoolean, "true or false"},
                                  Harmless{"length_penalty", &Json::is_number, "a number"}};
  for (const auto& [name, is, type] : kFields) {
    const Json* value = fields.find(name);
    if (value && !(value->*is)()) {
      return fail_at(name, ErrorCode::kInvalidArgument, "{} must be {}, not {}", name, type, describe_json(*value));
    }
  }
  return {};
}

}  // namespace

Result<TokenId> to_token(const Json& value, const std::string& what, TokenId vocab_size) {
  WEIR_TRY(const std::int64_t id, to_integer(value, what, 0, std::int64_t{vocab_size} - 1));
  return static_cast<TokenId>(id);
}

Status check_object(const Json& body) {
  if (body.is_object()) return {};
  return fail(ErrorCode::kInvalidArgument, "the request body must be a JSON object, not {}", describe_json(body));
}

Status parse_generation_fields(const Fields& fields, const ParseContext& context, GenerationRequest& out) {
  WEIR_RETURN_IF_ERROR(fields.string("model", out.model));
  WEIR_RETURN_IF_ERROR(fields.boolean("stream", out.stream));
  WEIR_RETURN_IF_ERROR(parse_stream_options(fields, out));
  WEIR_RETURN_IF_ERROR(parse_sampling(fields, context, out));

  std::int64_t n = 1;
  WEIR_RETURN_IF_ERROR(fields.integer("n", 1, kMaxChoices, n));
  out.n = static_cast<int>(n);
  std::int64_t best_of = n;
  WEIR_RETURN_IF_ERROR(fields.integer("best_of", 1, kMaxChoices, best_of));
  if (best_of != n) {
    return fail_at("best_of", ErrorCode::kUnsupported, "best_of {} with n {} is not supported; leave best_of out",
                   best_of, n);
  }

  WEIR_RETURN_IF_ERROR(fields.integer("max_tokens", 0, kMaxInt, out.max_tokens));
  WEIR_RETURN_IF_ERROR(fields.integer("min_tokens", 0, kMaxInt, out.sampling.min_tokens));
  WEIR_RETURN_IF_ERROR(fields.boolean("ignore_eos", out.sampling.ignore_eos));
  WEIR_RETURN_IF_ERROR(parse_stop(fields, out));
  WEIR_RETURN_IF_ERROR(parse_stop_tokens(fields, context.vocab_size, out));
  WEIR_RETURN_IF_ERROR(fields.boolean("include_stop_str_in_output", out.include_stop));

  WEIR_RETURN_IF_ERROR(fields.boolean("return_token_ids", out.return_token_ids));
  WEIR_RETURN_IF_ERROR(fields.boolean("return_tokens_as_token_ids", out.tokens_as_ids));
  WEIR_RETURN_IF_ERROR(fields.boolean("skip_special_tokens", out.skip_special_tokens));
  WEIR_RETURN_IF_ERROR(fields.boolean("add_special_tokens", out.add_special_tokens));
  WEIR_RETURN_IF_ERROR(fields.boolean("echo", out.echo));
  std::int64_t prompt_logprobs = -1;
  WEIR_RETURN_IF_ERROR(fields.integer("prompt_logprobs", 0, kMaxLogprobs, prompt_logprobs));
  out.prompt_logprobs = static_cast<int>(prompt_logprobs);

  std::int64_t priority = 0;
  constexpr std::int64_t kMaxPriority = std::numeric_limits<std::int32_t>::max();
  WEIR_RETURN_IF_ERROR(fields.integer("priority", -kMaxPriority, kMaxPriority, priority));
  out.priority = static_cast<int>(priority);
  WEIR_RETURN_IF_ERROR(fields.string("cache_salt", out.cache_salt));

  WEIR_RETURN_IF_ERROR(check_output_format(fields));
  WEIR_RETURN_IF_ERROR(refuse_unsupported(fields));
  WEIR_RETURN_IF_ERROR(refuse_unsupported_values(fields));
  return check_harmless(fields);
}

}  // namespace weir::api
