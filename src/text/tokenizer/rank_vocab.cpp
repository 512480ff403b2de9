// Tokenizer::from_tekken and from_tiktoken: byte-level vocabularies that list
// tokens by rank and no merges.
#include "text/tokenizer/rank_vocab.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "text/tokenizer.h"
#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/gguf_pre.h"
#include "text/tokenizer/json_parts.h"
#include "text/tokenizer/limits.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/word_models.h"

namespace weir::text {

using nlohmann::json;

Result<json> read_tokenizer_config(std::string_view text) {
  if (text.empty()) return json::object();
  json config = json::parse(text, nullptr, false);
  if (config.is_discarded() || !config.is_object()) {
    return fail(ErrorCode::kCorruptFile, "tokenizer_config.json is not a JSON object");
  }
  return config;
}

Result<std::vector<ConfiguredToken>> configured_tokens(const json& config) {
  std::vector<ConfiguredToken> tokens;
  const json& added = json_member(config, "added_tokens_decoder");
  if (!added.is_object()) return tokens;
  for (const auto& [key, token] : added.items()) {
    std::uint32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const json& content = json_member(token, "content");
    if (error != std::errc() || end != key.data() + key.size() || id >= kMaxTokens || !content.is_string() ||
        content == "" || content.get_ref<const std::string&>().size() > kMaxTokenBytes) {
      return fail(ErrorCode::kCorruptFile,
                  "added_tokens_decoder of tokenizer_config.json has no token "
                  "at \"{}\"",
                  key);
    }
    tokens.push_back({static_cast<TokenId>(id), content.get<std::string>(), json_flag(token, "special", false)});
  }
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return tokens;
}

namespace {

// By id; tokens that are not there are empty.
struct Ranked {
  std::vector<std::string> bytes;
  std::vector<std::uint8_t> flags;

  Status put(std::uint64_t id, std::string text, std::uint8_t more) {
    if (id >= kMaxTokens || text.empty() || text.size() > kMaxTokenBytes) {
      return fail(ErrorCode::kCorruptFile,
                  "token {} of the vocabulary has {} bytes; weir allows 1 to "
                  "{} bytes and {} tokens",
                  id, text.size(), kMaxTokenBytes, kMaxTokens);
    }
    const auto at = static_cast<std::size_t>(id);
    if (at >= bytes.size()) {
      bytes.resize(at + 1);
      flags.resize(at + 1, 0);
    }
    bytes[at] = std::move(text);
    flags[at] = static_cast<std::uint8_t>(kFlagPresent | more);
    return {};
  }
};

Result<std::unique_ptr<Tokenizer>> make_ranked(const Ranked& ranked, std::vector<StagePtr> stages, bool nfc,
                                               const SpecialIds& special, bool add_bos) {
  PipelineParts parts;
  parts.tokens = std::make_unique<TokenSet>();
  TokenSet& set = *parts.tokens;
  set.flags = ranked.flags;
  set.ids = TextIndex(ranked.bytes.size());
  TextIndex index(ranked.bytes.size());
  std::vector<AddedToken> added;
  for (std::size_t i = 0; i < ranked.bytes.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const bool matched = (set.flags[i] & kFlagMatched) != 0;
    set.bytes.push_back(ranked.bytes[i]);
    set.texts.push_back(matched ? ranked.bytes[i] : bytes_to_chars(ranked.bytes[i]));
    if (matched) {
      added.push_back({.id = id, .content = ranked.bytes[i], .control = (set.flags[i] & kFlagControl) != 0});
    } else {
      index.insert(set.bytes, id);
    }
    set.ids.insert(set.texts, id);
  }
  if (set.texts.size() == 0) return fail(ErrorCode::kCorruptFile, "the vocabulary has no tokens");
  parts.model = std::make_unique<RankBpe>(&set.bytes, std::move(index));
  parts.raw_added = AddedTokens(std::move(added));
  std::vector<NormalizerStep> steps;
  if (nfc) steps.emplace_back(FormStep{NormalForm::kNfc});
  WEIR_TRY(parts.normalizer, Normalizer::sequence(std::move(steps)));
  WEIR_TRY(parts.pre_tokenizer, PreTokenizer::chain(std::move(stages)));
  parts.special = special;
  if (add_bos && special.bos) parts.before.push_back(*special.bos);
  return make_pipeline(std::move(parts));
}

std::optional<TokenId> token_of(const Ranked& ranked, std::string_view text) {
  const auto found = std::find(ranked.bytes.begin(), ranked.bytes.end(), text);
  if (text.empty() || found == ranked.bytes.end()) return std::nullopt;
  return static_cast<TokenId>(found - ranked.bytes.begin());
}

// "<s>" or {"content": "<s>"}.
std::string token_name(const json& config, const char* key) {
  const json& value = json_member(config, key);
  const json& name = value.is_object() ? json_member(value, "content") : value;
  return name.is_string() ? name.get<std::string>() : std::string();
}

std::uint64_t number_or(const json& node, const char* key, std::uint64_t absent) {
  const json& value = json_member(node, key);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : absent;
}

}  // namespace

// Special tokens come first; those that the file does not name are there too.
// Format: mistral-common's Tekkenizer.
Result<std::unique_ptr<Tokenizer>> Tokenizer::from_tekken(std::string_view text) {
  const json file = json::parse(text, nullptr, false);
  const json& config = json_member(file, "config");
  const json& vocab = json_member(file, "vocab");
  const json& pattern = json_member(config, "pattern");
  if (!vocab.is_array() || !pattern.is_string()) {
    return fail(ErrorCode::kCorruptFile, "tekken.json has no list \"vocab\" or no config.pattern");
  }
  const std::uint64_t specials = number_or(config, "default_num_special_tokens", 1000);
  const std::uint64_t size = number_or(config, "default_vocab_size", vocab.size() + specials);
  if (specials > kMaxTokens || size > kMaxTokens || size < specials) {
    return fail(ErrorCode::kCorruptFile,
                "tekken.json has a vocabulary of {} with {} special tokens; "
                "weir allows {}",
                size, specials, kMaxTokens);
  }
  Ranked ranked;
  constexpr std::uint8_t kControl = kFlagControl | kFlagMatched;
  for (std::uint64_t i = 0; i < specials; ++i) {
    WEIR_RETURN_IF_ERROR(ranked.put(i, fmt::format("<SPECIAL_{}>", i), kControl));
  }
  const json& named = json_member(file, "special_tokens");
  if (named.is_array()) {
    for (const json& token : named) {
      WEIR_TRY(std::string name, json_string(token, "token_str"));
      const std::uint64_t rank = number_or(token, "rank", specials);
      if (rank >= specials) return fail(ErrorCode::kCorruptFile, "a special token of tekken.json has rank {}", rank);
      WEIR_RETURN_IF_ERROR(ranked.put(rank, std::move(name), kControl));
    }
  } else {  // the first version's list, which the files do not hold
    constexpr const char* kFirst[] = {"<unk>",
                                      "<s>",
                                      "</s>",
                                      "[INST]",
                                      "[/INST]",
                                      "[AVAILABLE_TOOLS]",
                                      "[/AVAILABLE_TOOLS]",
                                      "[TOOL_RESULTS]",
                                      "[/TOOL_RESULTS]",
                                      "[TOOL_CALLS]"};
    for (std::uint64_t i = 0; i < std::size(kFirst) && i < specials; ++i) {
      WEIR_RETURN_IF_ERROR(ranked.put(i, kFirst[i], kControl));
    }
  }
  for (const json& token : vocab) {
    const std::uint64_t rank = number_or(token, "rank", size);
    if (rank >= size - specials) continue;
    WEIR_TRY(const std::string encoded, json_string(token, "token_bytes"));
    WEIR_RETURN_IF_ERROR(ranked.put(specials + rank, bytes_of_base64(encoded), 0));
  }
  std::vector<StagePtr> stages;
  if (const Scanner scanner = scanner_for_pattern(pattern.get_ref<const std::string&>())) {
    stages.push_back(scanner_stage(scanner));
  } else {
    WEIR_TRY(Regex regex, Regex::compile(pattern.get_ref<const std::string&>()));
    stages.push_back(regex_stage(std::move(regex), SplitBehavior::kIsolated, false));
  }
  const SpecialIds special{.bos = token_of(ranked, "<s>"), .eos = token_of(ranked, "</s>")};
  return make_ranked(ranked, std::move(stages), false, special, true);
}

// Lines of base64 and a rank. Which pattern they mean only the family's program
// knows.
Result<std::unique_ptr<Tokenizer>> Tokenizer::from_tiktoken(std::string_view text, std::string_view tokenizer_config) {
  WEIR_TRY(const json config, read_tokenizer_config(tokenizer_config));
  Ranked ranked;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view entry = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (entry.empty()) continue;
    const std::size_t space = std::min(entry.find(' '), entry.size());
    std::uint32_t rank = 0;
    const auto number = entry.substr(std::min(space + 1, entry.size()));
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (error != std::errc() || stop == number.data()) {
      return fail(ErrorCode::kCorruptFile, "line {} of the vocabulary is not base64 and a rank", line);
    }
    WEIR_RETURN_IF_ERROR(ranked.put(rank, bytes_of_base64(entry.substr(0, space)), 0));
  }
  WEIR_TRY(const auto added, configured_tokens(config));
  for (const ConfiguredToken& token : added) {
    const auto flags = token.special ? kFlagControl | kFlagMatched : kFlagMatched;
    WEIR_RETURN_IF_ERROR(
        ranked.put(static_cast<std::uint64_t>(token.id), token.content, static_cast<std::uint8_t>(flags)));
  }
  const std::string family = token_name(config, "tokenizer_class");
  const bool qwen = family.starts_with("QW") || family.starts_with("Qw");
  WEIR_TRY(const PreRules rules, rules_for_pre(qwen                            ? "qwen2"
                                               : family == "TikTokenTokenizer" ? "kimi-k2"
                                                                               : "llama-bpe"));
  WEIR_TRY(std::vector<StagePtr> stages, stages_for(rules));
  const SpecialIds special{.bos = token_of(ranked, token_name(config, "bos_token")),
                           .eos = token_of(ranked, token_name(config, "eos_token"))};
  return make_ranked(ranked, std::move(stages), rules.nfc, special, json_flag(config, "add_bos_token", rules.add_bos));
}

}  // namespace weir::text
