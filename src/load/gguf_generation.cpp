#include <algorithm>
#include <array>
#include <cmath>

#include "load/gguf_config.h"
#include "load/limits.h"

namespace weir::load {
namespace {

// What chat formats end a turn with. Files often name only one of several in their metadata.
constexpr std::array<std::string_view, 12> kEndTexts = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",   "<|end_of_text|>",
    "<|eom_id|>", "</s>",       "<eos>",   "<EOT>",         "<|end_of_turn|>", "<end_of_utterance>",
};

constexpr std::string_view kIdPrefix = "tokenizer.ggml.", kIdSuffix = "_token_id";
// How converters write "there is none".
constexpr std::int64_t kNoToken = 0xffffffff;
constexpr std::int64_t kControlToken = 3;  // of tokenizer.ggml.token_type

Status add_stated_ends(const GgufFile& gguf, int vocab, const std::string& file, std::vector<TokenId>& ends) {
  for (const auto& [key, value] : gguf.metadata()) {
    if (!key.starts_with(kIdPrefix) || !key.ends_with(kIdSuffix)) continue;
    const auto* id = std::get_if<std::int64_t>(&value);
    if (id != nullptr && (*id == kNoToken || *id == -1)) continue;
    if (id == nullptr || *id < 0 || *id >= vocab) {
      return fail_at(key, ErrorCode::kCorruptFile, "{}: \"{}\" is {}; a token id from 0 to {} expected", file, key,
                     id == nullptr ? std::string("no integer") : fmt::format("{}", *id), vocab - 1);
    }
    const std::string_view kind =
        std::string_view(key).substr(kIdPrefix.size(), key.size() - kIdPrefix.size() - kIdSuffix.size());
    if (kind == "eos" || kind == "eot" || kind == "eom") ends.push_back(static_cast<TokenId>(*id));
  }
  return {};
}

// Only control tokens: Gemma's vocabulary, for one, has "</s>" as a piece of HTML.
void add_known_ends(const GgufFile& gguf, std::vector<TokenId>& ends) {
  const auto* tokens = gguf.get_strings("tokenizer.ggml.tokens");
  const auto* types = gguf.get_ints("tokenizer.ggml.token_type");
  if (tokens == nullptr || types == nullptr) return;
  for (std::size_t id = 0; id < std::min(tokens->size(), types->size()); ++id) {
    if ((*types)[id] != kControlToken) continue;
    if (std::ranges::find(kEndTexts, (*tokens)[id]) != kEndTexts.end()) ends.push_back(static_cast<TokenId>(id));
  }
}

}  // namespace

Result<GenerationDefaults> generation_from_gguf(const GgufFile& gguf, int vocab, const std::string& file) {
  GenerationDefaults defaults;
  WEIR_RETURN_IF_ERROR(add_stated_ends(gguf, vocab, file, defaults.eos_ids));
  add_known_ends(gguf, defaults.eos_ids);
  std::ranges::sort(defaults.eos_ids);
  const auto repeated = std::ranges::unique(defaults.eos_ids);
  defaults.eos_ids.erase(repeated.begin(), repeated.end());

  const auto sampling = [&](std::string_view key, double low, double high) -> std::optional<float> {
    const auto value = gguf.get_double(key);
    // A recommendation out of range helps nobody and harms nobody: as if it were not there.
    if (!value || !(*value >= low && *value <= high)) return std::nullopt;
    return static_cast<float>(*value);
  };
  defaults.temperature = sampling("general.sampling.temp", 0.0, 100.0);
  defaults.top_p = sampling("general.sampling.top_p", 1e-6, 1.0);
  defaults.repetition_penalty =
      sampling("general.sampling.penalty_repeat", kMinRepetitionPenalty, kMaxRepetitionPenalty);
  if (const auto k = gguf.get_int("general.sampling.top_k"); k && *k >= 0 && *k <= kVocabRange.high)
    defaults.top_k = static_cast<int>(*k);
  return defaults;
}

Result<std::map<std::string, std::string>> templates_from_gguf(const GgufFile& gguf, const std::string& file) {
  constexpr std::string_view key = "tokenizer.chat_template";
  std::map<std::string, std::string> templates;
  for (auto it = gguf.metadata().lower_bound(key); it != gguf.metadata().end() && it->first.starts_with(key); ++it) {
    const auto* text = std::get_if<std::string>(&it->second);
    const std::string_view rest = std::string_view(it->first).substr(key.size());
    if (text == nullptr || (!rest.empty() && rest[0] != '.')) continue;  // tokenizer.chat_templates lists the names
    if (text->size() > kMaxTemplateBytes) {
      return fail_at(it->first, ErrorCode::kTooLarge, "{}: \"{}\" has {} bytes; at most {} are allowed", file,
                     it->first, text->size(), kMaxTemplateBytes);
    }
    templates[std::string(rest.substr(rest.empty() ? 0 : 1))] = *text;
  }
  return templates;
}

}  // namespace weir::load
