#include "quantise/vocabulary.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "load/json_fields.h"
#include "load/limits.h"
#include "text/tokenizer.h"
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
#define WEIR_REST R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::array kPatterns = {
    NamedPattern{WEIR_WORDS R"(\p{N}{1,3})" WEIR_REST, "llama-bpe"},
    NamedPattern{WEIR_WORDS R"(\p{N})" WEIR_REST, "qwen2"},
};
#undef WEIR_WORDS
#undef WEIR_REST

// The steps of the pre-tokenizer, a sequence or one alone.
std::vector<json> split_steps(const json& tokenizer) {
  const json step = tokenizer.value("pre_tokenizer", json());
  if (!step.is_object()) return {};
  const auto inner = step.find("pretokenizers");
  if (step.value("type", json("")) == "Sequence" && inner != step.end() && inner->is_array()) return *inner;
  return {step};
}

// GGUF's name for how the text is split; empty when it has none.
std::string pre_name(const json& tokenizer) {
  std::string name;
  bool digits = false, splits = false;
  for (const json& step : split_steps(tokenizer)) {
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

Tokens tokens_of(const text::Tokenizer& tokenizer, const json& document, int vocab, bool bytes) {
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
      if (bytes && text == "<unk>") type = TokenType::kUnknown;
    } else if (bytes && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>')) {
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

}  // namespace

Result<std::string> add_vocabulary(const load::ModelFiles& files, int vocab, GgufMetadata& to) {
  WEIR_TRY(const json document, load::parse_json(files.tokenizer_json, files.path + "/tokenizer.json"));
  WEIR_TRY(const auto tokenizer, text::Tokenizer::from_json(files.tokenizer_json, files.tokenizer_config_json));
  const json model = document.value("model", json::object());
  const bool bpe = model.is_object() && (model.value("type", json("BPE")) == "BPE");
  if (!bpe) {
    return fail(ErrorCode::kUnsupported, "{}: a {} vocabulary cannot be written as GGUF yet; BPE can", files.path,
                model.is_object() ? model.value("type", json("?")).dump().substr(0, 40) : "strange");
  }
  const bool bytes = model.value("byte_fallback", json(false)) == true;
  const Tokens tokens = tokens_of(*tokenizer, document, vocab, bytes);
  const std::vector<std::string> merges = merges_of(model);
  const std::string pre = bytes ? "default" : pre_name(document);
  std::string note;
  to.add_string("tokenizer.ggml.model", bytes ? "llama" : "gpt2");
  to.add_string("tokenizer.ggml.pre", pre.empty() ? "default" : pre);
  if (pre.empty()) {
    to.add_string("tokenizer.huggingface.json", files.tokenizer_json);
    note =
        "GGUF has no name for how this tokenizer splits text: its tokenizer.json is in the file, which weir reads; "
        "other programs may split text differently";
  }
  to.add_strings("tokenizer.ggml.tokens", tokens.texts);
  if (bytes) to.add_f32s("tokenizer.ggml.scores", scores_of(tokens.texts, merges));
  to.add_i32s("tokenizer.ggml.token_type", tokens.types);
  if (!bytes) to.add_strings("tokenizer.ggml.merges", merges);
  const auto add_id = [&](const char* key, std::optional<TokenId> id) {
    if (id && *id >= 0 && *id < vocab) to.add_u32(key, static_cast<std::uint32_t>(*id));
  };
  add_id("tokenizer.ggml.bos_token_id", tokenizer->bos());
  std::optional<TokenId> eos = tokenizer->eos();
  if (!eos && !files.generation.eos_ids.empty()) eos = files.generation.eos_ids.front();
  add_id("tokenizer.ggml.eos_token_id", eos);
  const auto around = tokenizer->encode("", {.add_special = true});
  to.add_bool("tokenizer.ggml.add_bos_token",
              tokenizer->bos() && !around.empty() && around.front() == *tokenizer->bos());
  add_templates(files.chat_templates, to);
  return note;
}

}  // namespace weir::quantise
