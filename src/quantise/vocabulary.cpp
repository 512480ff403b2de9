#include "quantise/vocabulary.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "load/json_fields.h"
#include "load/limits.h"
#include "text/tokenizer.h"
#include "text/tokenizer/byte_token.h"
#include "text/vocab_data.h"

namespace weir::quantise {
namespace {

using nlohmann::json;
using text::TokenType;

// Patterns of tokenizer.json that GGUF has a name for.
struct NamedPattern {
  std::string_view pattern, name;
};
#define WEIR_WORDS R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
#define WEIR_CASED R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
#define WEIR_CASED2 R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
#define WEIR_REST R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::array kPatterns = {
    NamedPattern{WEIR_WORDS R"(\p{N}{1,3})" WEIR_REST, "llama-bpe"},
    NamedPattern{WEIR_WORDS R"(\p{N})" WEIR_REST, "qwen2"},
    NamedPattern{WEIR_CASED
                 R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)" WEIR_CASED2
                 R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                 "gpt-4o"},
    NamedPattern{WEIR_CASED WEIR_CASED2 R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)", "tekken"},
};
#undef WEIR_WORDS
#undef WEIR_CASED
#undef WEIR_CASED2
#undef WEIR_REST

// The steps of a part of tokenizer.json that is one step, a list of them under `list`, or nothing.
std::vector<json> steps_of(const json& document, const char* part, const char* list) {
  const json step = document.value(part, json());
  if (!step.is_object()) return {};
  const auto inner = step.find(list);
  if (step.value("type", json("")) == "Sequence" && inner != step.end() && inner->is_array()) return *inner;
  return {step};
}

// GGUF's name for how the text is split; empty when it has none.
std::string pre_name(const json& tokenizer) {
  std::string name;
  bool digits = false, splits = false;
  for (const json& step : steps_of(tokenizer, "pre_tokenizer", "pretokenizers")) {
    if (!step.is_object()) return "";
    const json type = step.value("type", json(""));
    if (type == "Digits") digits = step.value("individual_digits", json(false)) == true;
    if (type == "Split") {
      splits = true;
      const json pattern = step.value("pattern", json::object());
      const json regex = pattern.is_object() ? pattern.value("Regex", json("")) : json("");
      const auto* found =
          std::ranges::find_if(kPatterns, [&](const auto& p) { return regex == std::string(p.pattern); });
      if (found != kPatterns.end()) name = found->name;
    }
    if (type == "ByteLevel" && step.value("use_regex", json(true)) == true && !splits)
      name = digits ? "smollm" : "gpt-2";
  }
  return name;
}

std::vector<std::string> merges_of(const json& model) {
  std::vector<std::string> merges;
  const json list = model.value("merges", json::array());
  if (!list.is_array()) return merges;
  for (const json& merge : list) {
    if (merge.is_string()) {
      merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
  }
  return merges;
}

// A piece that merges make is the better the earlier its merge stands; others are never made.
std::vector<float> scores_of(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
  std::unordered_map<std::string, float> score;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    std::string piece = merges[i];
    if (const std::size_t space = piece.find(' ', 1); space != std::string::npos) piece.erase(space, 1);
    score.emplace(std::move(piece), -static_cast<float>(i));
  }
  std::vector<float> scores;
  for (const std::string& token : tokens) {
    const auto found = score.find(token);
    scores.push_back(found == score.end() ? -1e9f : found->second);
  }
  return scores;
}

struct Tokens {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
};

Tokens tokens_of(const text::Tokenizer& tokenizer, const json& document, int vocab, bool pieces) {
  std::unordered_map<std::string, bool> added;  // special?
  const json list = document.value("added_tokens", json::array());
  for (const json& token : list.is_array() ? list : json::array()) {
    if (token.is_object() && token.value("content", json()).is_string())
      added.emplace(token["content"].get<std::string>(), token.value("special", json(false)) == true);
  }
  Tokens tokens;
  for (int id = 0; id < vocab; ++id) {
    std::string text = id < tokenizer.vocab_size() ? std::string(tokenizer.token_text(id)) : std::string();
    TokenType type = TokenType::kNormal;
    if (text.empty()) {
      text = fmt::format("[PAD{}]", id);
      type = TokenType::kUnused;
    } else if (const auto found = added.find(text); found != added.end()) {
      type = tokenizer.is_control(id) || found->second ? TokenType::kControl : TokenType::kUserDefined;
      if (pieces && text == "<unk>") type = TokenType::kUnknown;
    } else if (pieces && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>')) {
      type = TokenType::kByte;
    }
    tokens.texts.push_back(std::move(text));
    tokens.types.push_back(static_cast<std::int32_t>(type));
  }
  return tokens;
}

void add_templates(const std::map<std::string, std::string>& templates, GgufMetadata& to) {
  std::vector<std::string> names;
  for (const auto& [name, source] : templates) {
    to.add_string(name.empty() ? "tokenizer.chat_template" : "tokenizer.chat_template." + name, source);
    if (!name.empty()) names.push_back(name);
  }
  if (!names.empty()) to.add_strings("tokenizer.chat_templates", names);
}

enum class Kind { kByteLevel, kPieces, kUnigram };

Result<Kind> kind_of(const json& document, const std::string& path) {
  const auto found = document.find("model");
  if (document.is_object() && found != document.end() && found->is_object()) {
    const json type = found->value("type", json("BPE"));
    if (type == "BPE") return found->value("byte_fallback", json(false)) == true ? Kind::kPieces : Kind::kByteLevel;
    if (type == "Unigram") return Kind::kUnigram;
    return fail(ErrorCode::kUnsupported, "{}: a {} vocabulary cannot be written as GGUF; BPE and Unigram can", path,
                type.dump().substr(0, 40));
  }
  return fail(ErrorCode::kCorruptFile, "{}/tokenizer.json has no \"model\"", path);
}

// Whether a text begins as after a space.
bool adds_space(const json& document) {
  for (const json& step : steps_of(document, "normalizer", "normalizers")) {
    if (step.is_object() && step.value("type", json("")) == "Prepend") return true;
  }
  for (const json& step : steps_of(document, "pre_tokenizer", "pretokenizers")) {
    if (!step.is_object() || step.value("type", json("")) != "Metaspace") continue;
    const json scheme = step.value("prepend_scheme", json());
    return scheme.is_string() ? scheme != "never" : step.value("add_prefix_space", json(true)) == true;
  }
  return false;
}

void add_unigram(const json& document, const Tokens& tokens, GgufMetadata& to) {
  std::vector<float> scores(tokens.texts.size(), -1e9f);
  const json& model = document["model"];
  const json list = model.value("vocab", json::array());
  for (std::size_t id = 0; list.is_array() && id < std::min(list.size(), scores.size()); ++id) {
    if (list[id].is_array() && list[id].size() == 2 && list[id][1].is_number()) scores[id] = list[id][1].get<float>();
  }
  to.add_f32s("tokenizer.ggml.scores", scores);
  const json unknown = model.value("unk_id", json());
  if (unknown.is_number_unsigned() && unknown.get<std::uint64_t>() < tokens.texts.size())
    to.add_u32("tokenizer.ggml.unknown_token_id", unknown.get<std::uint32_t>());
  bool squeezes = false;
  for (const json& step : steps_of(document, "normalizer", "normalizers")) {
    if (!step.is_object()) continue;
    const json type = step.value("type", json("")), map = step.value("precompiled_charsmap", json());
    squeezes = squeezes || type == "Replace";  // of several spaces by one, as converters of SentencePiece write it
    if (type == "Precompiled" && map.is_string()) {
      const std::string bytes = text::bytes_of_base64(map.get<std::string>());
      to.add_u8s("tokenizer.ggml.precompiled_charsmap", std::as_bytes(std::span(bytes)));
    }
  }
  to.add_bool("tokenizer.ggml.remove_extra_whitespaces", squeezes);
}

// The tokens that begin a text and end a reply. Of several that end one, GGUF names three.
void add_special(const text::Tokenizer& tokenizer, const load::GenerationDefaults& generation, int vocab,
                 GgufMetadata& to) {
  const auto add_id = [&](std::string_view name, std::optional<TokenId> id) {
    if (id && *id >= 0 && *id < vocab)
      to.add_u32(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<std::uint32_t>(*id));
  };
  add_id("bos", tokenizer.bos());
  std::vector<TokenId> ends = generation.eos_ids;
  if (tokenizer.eos()) {
    std::erase(ends, *tokenizer.eos());
    ends.insert(ends.begin(), *tokenizer.eos());
  }
  for (std::size_t i = 0; i < std::min(ends.size(), std::size_t{3}); ++i)
    add_id(std::array{"eos", "eot", "eom"}[i], ends[i]);
  const auto around = tokenizer.encode("", {.add_special = true});
  to.add_bool("tokenizer.ggml.add_bos_token", tokenizer.bos() && !around.empty() && around.front() == *tokenizer.bos());
  to.add_bool("tokenizer.ggml.add_eos_token",
              tokenizer.eos() && around.size() > (tokenizer.bos() ? 1 : 0) && around.back() == *tokenizer.eos());
  if (generation.temperature) to.add_f32("general.sampling.temp", *generation.temperature);
  if (generation.top_p) to.add_f32("general.sampling.top_p", *generation.top_p);
  if (generation.top_k) to.add_i32("general.sampling.top_k", *generation.top_k);
  if (generation.repetition_penalty) to.add_f32("general.sampling.penalty_repeat", *generation.repetition_penalty);
}

Status add_originals(const load::ModelFiles& files, GgufMetadata& to) {
  to.add_string("tokenizer.huggingface.json", files.tokenizer_json);
  if (files.tokenizer_config_json.empty()) return {};
  WEIR_TRY(json config, load::parse_json(files.tokenizer_config_json, files.path + "/tokenizer_config.json"));
  if (config.is_object()) config.erase("chat_template");  // it has keys of its own
  to.add_string("tokenizer.huggingface.config", config.dump());
  return {};
}

}  // namespace

Result<std::string> add_vocabulary(const load::ModelFiles& files, int vocab, GgufMetadata& to) {
  if (files.tokenizer_json.empty()) {
    return fail(ErrorCode::kUnsupported,
                "{}: a folder without tokenizer.json cannot be written as GGUF yet; save its tokenizer as one",
                files.path);
  }
  WEIR_TRY(const json document, load::parse_json(files.tokenizer_json, files.path + "/tokenizer.json"));
  WEIR_TRY(const auto tokenizer, text::Tokenizer::from_json(files.tokenizer_json, files.tokenizer_config_json));
  WEIR_TRY(const Kind kind, kind_of(document, files.path));
  const json& model = document["model"];
  const Tokens tokens = tokens_of(*tokenizer, document, vocab, kind != Kind::kByteLevel);
  const std::string pre = kind == Kind::kByteLevel ? pre_name(document) : "default";
  to.add_string("tokenizer.ggml.model", kind == Kind::kByteLevel ? "gpt2" : kind == Kind::kPieces ? "llama" : "t5");
  to.add_string("tokenizer.ggml.pre", pre.empty() ? "default" : pre);
  to.add_strings("tokenizer.ggml.tokens", tokens.texts);
  to.add_i32s("tokenizer.ggml.token_type", tokens.types);
  if (kind == Kind::kUnigram) {
    add_unigram(document, tokens, to);
  } else {
    const std::vector<std::string> merges = merges_of(model);
    if (kind == Kind::kPieces) to.add_f32s("tokenizer.ggml.scores", scores_of(tokens.texts, merges));
    if (kind == Kind::kByteLevel) to.add_strings("tokenizer.ggml.merges", merges);
  }
  if (kind != Kind::kByteLevel) to.add_bool("tokenizer.ggml.add_space_prefix", adds_space(document));
  add_special(*tokenizer, files.generation, vocab, to);
  add_templates(files.chat_templates, to);
  WEIR_RETURN_IF_ERROR(add_originals(files, to));
  if (!pre.empty()) return std::string();
  return std::string(
      "GGUF has no name for how this tokenizer splits text: weir reads its tokenizer.json, which is in the file; "
      "other programs may split text differently");
}

}  // namespace weir::quantise
