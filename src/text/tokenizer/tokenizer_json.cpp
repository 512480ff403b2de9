// Tokenizer::from_json: a Hugging Face tokenizer.json -> Pipeline. The file is the authority; tokenizer_config.json
// only names bos and eos.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "text/tokenizer.h"
#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/json_document.h"
#include "text/tokenizer/json_models.h"
#include "text/tokenizer/json_parts.h"
#include "text/tokenizer/limits.h"
#include "text/tokenizer/pipeline.h"
#include "text/tokenizer/rank_vocab.h"
#include "text/tokenizer/token_decoder.h"

namespace weir::text {
namespace {

using nlohmann::json;

struct JsonAddedToken {
  std::int64_t id = 0;
  std::string content;
  bool special = false, normalized = true, single_word = false, lstrip = false, rstrip = false;
};

Result<TokenId> checked_id(std::int64_t id, std::string_view content) {
  if (id < 0 || id >= static_cast<std::int64_t>(kMaxTokens)) {
    return fail(ErrorCode::kCorruptFile, "token \"{}\" of tokenizer.json has id {}; weir allows 0 to {}", content, id,
                kMaxTokens - 1);
  }
  return static_cast<TokenId>(id);
}

Status check_text(std::string_view content, std::int64_t id) {
  if (content.size() <= kMaxTokenBytes) return {};
  return fail(ErrorCode::kUnsupported, "token {} of tokenizer.json has {} bytes; weir allows {}", id, content.size(),
              kMaxTokenBytes);
}

Result<std::vector<JsonAddedToken>> read_added_tokens(const json& list) {
  std::vector<JsonAddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) return fail(ErrorCode::kCorruptFile, "added_tokens of tokenizer.json is not a list");
  for (const json& node : list) {
    const json& id = json_member(node, "id");
    const json& content = json_member(node, "content");
    if (!id.is_number_integer() || !content.is_string()) {
      return fail(ErrorCode::kCorruptFile, "entry {} of added_tokens in tokenizer.json has no id or no content",
                  tokens.size());
    }
    JsonAddedToken token{.id = id.get<std::int64_t>(), .content = content.get<std::string>()};
    token.special = json_flag(node, "special", false);
    token.normalized = json_flag(node, "normalized", !token.special);
    token.single_word = json_flag(node, "single_word", false);
    token.lstrip = json_flag(node, "lstrip", false);
    token.rstrip = json_flag(node, "rstrip", false);
    WEIR_RETURN_IF_ERROR(check_text(token.content, token.id));
    if (token.content.empty()) {
      return fail(ErrorCode::kCorruptFile, "added token {} of tokenizer.json is an empty string", token.id);
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// id -> spelling, from model.vocab and added_tokens together.
struct Spellings {
  std::vector<std::string> texts;
  std::vector<std::uint8_t> flags;

  Status put(TokenId id, const std::string& text, std::uint8_t more) {
    const auto i = static_cast<std::size_t>(id);
    if (i >= texts.size()) {
      texts.resize(i + 1);
      flags.resize(i + 1, 0);
    }
    if ((flags[i] & kFlagPresent) != 0 && texts[i] != text) {
      return fail(ErrorCode::kCorruptFile, "the tokens \"{}\" and \"{}\" of tokenizer.json have the same id {}",
                  texts[i], text, id);
    }
    texts[i] = text;
    flags[i] = static_cast<std::uint8_t>(flags[i] | kFlagPresent | more);
    return {};
  }
};

Result<Spellings> collect_spellings(const TokenizerDocument& document, const std::vector<JsonAddedToken>& added) {
  Spellings all;
  if (document.vocab.empty() && added.empty()) {
    return fail(ErrorCode::kCorruptFile, "tokenizer.json has no tokens: model.vocab and added_tokens are empty");
  }
  if (document.vocab.size() > kMaxTokens || document.merges.size() > kMaxMerges) {
    return fail(ErrorCode::kUnsupported, "tokenizer.json has {} tokens and {} merges; weir allows {} and {}",
                document.vocab.size(), document.merges.size(), kMaxTokens, kMaxMerges);
  }
  for (const auto& [text, number] : document.vocab) {
    WEIR_TRY(const TokenId id, checked_id(number, text));
    WEIR_RETURN_IF_ERROR(check_text(text, number));
    WEIR_RETURN_IF_ERROR(all.put(id, text, 0));
  }
  for (const JsonAddedToken& token : added) {
    WEIR_TRY(const TokenId id, checked_id(token.id, token.content));
    WEIR_RETURN_IF_ERROR(all.put(id, token.content, token.special ? kFlagControl | kFlagMatched : kFlagMatched));
  }
  return all;
}

struct Readout {
  TokenizerDocument document;
  std::vector<JsonAddedToken> added;
  PreTokenizerParts pre;
  TokenDecoder decoder;
  bool byte_level = false;
};

// What is decoded: added tokens that are matched behind the normalizer are shown as it leaves them.
std::vector<std::string> shown_texts(const Spellings& all, const Readout& in, const Normalizer& normalizer) {
  std::vector<std::string> shown = all.texts;
  for (const JsonAddedToken& token : in.added) {
    std::string buffer;
    if (token.normalized) shown[static_cast<std::size_t>(token.id)] = normalizer.apply(token.content, buffer);
  }
  return shown;
}

std::unique_ptr<TokenSet> make_token_set(Spellings all, const Readout& in, const Normalizer& normalizer) {
  const std::vector<std::string> shown_by_id = shown_texts(all, in, normalizer);
  auto set = std::make_unique<TokenSet>();
  set->flags = std::move(all.flags);
  set->ids = TextIndex(all.texts.size());
  for (std::size_t i = 0; i < all.texts.size(); ++i) {
    const std::string& text = all.texts[i];
    set->texts.push_back(text);
    // Added tokens of byte-level models are plain text, not bytes spelt as characters.
    const bool plain = in.byte_level && (set->flags[i] & kFlagMatched) != 0;
    const std::string& shown = shown_by_id[i];
    const auto decoded = plain ? TokenDecoder::Decoded{shown} : in.decoder.decode(shown, false);
    set->bytes.push_back(decoded.bytes);
    if (decoded.tail > 0) {
      set->tails.resize(all.texts.size());
      set->tails[i] = static_cast<std::uint8_t>(decoded.tail);
    }
    if (in.decoder.minds_first()) set->first_bytes.push_back(plain ? shown : in.decoder.decode(shown, true).bytes);
    if (in.byte_level) set->forms.push_back(chars_to_bytes(text).value_or(""));
  }
  for (std::size_t i = 0; i < all.texts.size(); ++i) set->ids.insert(set->texts, static_cast<TokenId>(i));
  return set;
}

void make_added(const Readout& in, PipelineParts& parts) {
  std::vector<AddedToken> raw, normalized;
  for (const JsonAddedToken& token : in.added) {
    AddedToken added{.id = static_cast<TokenId>(token.id),
                     .content = token.content,
                     .control = token.special,
                     .single_word = token.single_word,
                     .strip_left = token.lstrip,
                     .strip_right = token.rstrip};
    if (token.normalized && !parts.normalizer.empty()) {
      std::string buffer;
      added.content = std::string(parts.normalizer.apply(token.content, buffer));
      if (!added.content.empty()) normalized.push_back(std::move(added));
    } else {
      (token.normalized ? normalized : raw).push_back(std::move(added));
    }
  }
  parts.raw_added = AddedTokens(std::move(raw));
  parts.normalized_added = AddedTokens(std::move(normalized));
}

// "bos_token": "<s>" or {"content": "<s>", ...}.
std::optional<TokenId> named_token(const json& config, const char* key, const TokenSet& set) {
  const json& value = json_member(config, key);
  const json& name = value.is_object() ? json_member(value, "content") : value;
  if (!name.is_string()) return std::nullopt;
  const TokenId id = set.ids.find(set.texts, name.get<std::string>());
  return id >= 0 ? std::optional(id) : std::nullopt;
}

Status add_framing(const Readout& in, const json& config, PipelineParts& parts) {
  WEIR_TRY(const Framing framing, framing_from_json(json_member(in.document.rest, "post_processor")));
  const auto append = [&](const std::vector<std::int64_t>& from, std::vector<TokenId>& to) -> Status {
    for (const std::int64_t id : from) {
      if (id < 0 || id >= static_cast<std::int64_t>(parts.tokens->texts.size())) {
        return fail(ErrorCode::kCorruptFile,
                    "the post-processor of tokenizer.json adds token {}, but the vocabulary has {}", id,
                    parts.tokens->texts.size());
      }
      to.push_back(static_cast<TokenId>(id));
    }
    return {};
  };
  WEIR_RETURN_IF_ERROR(append(framing.before, parts.before));
  WEIR_RETURN_IF_ERROR(append(framing.after, parts.after));
  auto& special = parts.special;
  special.bos = named_token(config, "bos_token", *parts.tokens);
  special.eos = named_token(config, "eos_token", *parts.tokens);
  if (!framing.stated) {
    if (json_flag(config, "add_bos_token", false) && special.bos) parts.before.push_back(*special.bos);
    if (json_flag(config, "add_eos_token", false) && special.eos) parts.after.push_back(*special.eos);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json,
                                                        std::string_view tokenizer_config) {
  Readout in;
  WEIR_TRY(in.document, read_tokenizer_document(tokenizer_json));
  WEIR_TRY(const json config, read_tokenizer_config(tokenizer_config));
  const json& rest = in.document.rest;
  WEIR_RETURN_IF_ERROR(check_json_model(json_member(rest, "model")));
  WEIR_TRY(in.added, read_added_tokens(json_member(rest, "added_tokens")));
  WEIR_TRY(in.pre, pre_tokenizer_from_json(json_member(rest, "pre_tokenizer")));
  WEIR_TRY(in.decoder, TokenDecoder::from_json(json_member(rest, "decoder")));
  in.byte_level = in.pre.byte_level;
  WEIR_TRY(Spellings spellings, collect_spellings(in.document, in.added));

  PipelineParts parts;
  WEIR_TRY(parts.normalizer, normalizer_from_json(json_member(rest, "normalizer")));
  parts.tokens = make_token_set(std::move(spellings), in, parts.normalizer);
  WEIR_TRY(parts.model, model_from_json(in.document, *parts.tokens, in.byte_level));
  if (in.pre.byte_chars) parts.model = std::make_unique<CharsToBytes>(std::move(parts.model));
  make_added(in, parts);
  WEIR_TRY(parts.pre_tokenizer, PreTokenizer::chain(std::move(in.pre.stages)));
  WEIR_RETURN_IF_ERROR(add_framing(in, config, parts));
  return make_pipeline(std::move(parts));
}

}  // namespace weir::text
