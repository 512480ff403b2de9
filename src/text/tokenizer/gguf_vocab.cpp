// Tokenizer::from_vocab: a vocabulary as GGUF states it -> Pipeline. What the file leaves to the program (split
// patterns, NFC, whole-word look-ups) is looked up by the name of the pre-tokenizer in gguf_pre.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "text/tokenizer.h"
#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/gguf_pre.h"
#include "text/tokenizer/limits.h"
#include "text/tokenizer/pipeline.h"

namespace weir::text {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

TokenType type_of(const VocabData& vocab, std::size_t id) {
  return vocab.types.empty() ? TokenType::kNormal : vocab.types[id];
}

bool is_control_type(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

Status check_id(const char* key, std::optional<TokenId> id, std::size_t tokens) {
  if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < tokens)) return {};
  return fail_at(fmt::format("tokenizer.ggml.{}_token_id", key), ErrorCode::kCorruptFile,
                 "tokenizer.ggml.{}_token_id is {}, but the vocabulary has {} tokens", key, *id, tokens);
}

Status check_vocab(const VocabData& vocab) {
  const std::size_t count = vocab.tokens.size();
  if (count == 0) {
    return fail_at("tokenizer.ggml.tokens", ErrorCode::kCorruptFile,
                   "tokenizer.ggml.tokens is empty: the file has no vocabulary");
  }
  if (count > kMaxTokens) {
    return fail_at("tokenizer.ggml.tokens", ErrorCode::kUnsupported,
                   "tokenizer.ggml.tokens has {} tokens; weir allows {}", count, kMaxTokens);
  }
  if (!vocab.scores.empty() && vocab.scores.size() != count) {
    return fail_at("tokenizer.ggml.scores", ErrorCode::kCorruptFile,
                   "tokenizer.ggml.scores has {} values for {} tokens", vocab.scores.size(), count);
  }
  if (!vocab.types.empty() && vocab.types.size() != count) {
    return fail_at("tokenizer.ggml.token_type", ErrorCode::kCorruptFile,
                   "tokenizer.ggml.token_type has {} values for {} tokens", vocab.types.size(), count);
  }
  for (std::size_t id = 0; id < count; ++id) {
    if (vocab.tokens[id].empty()) {
      return fail_at("tokenizer.ggml.tokens", ErrorCode::kCorruptFile, "token {} of {} is an empty string", id, count);
    }
    if (vocab.tokens[id].size() > kMaxTokenBytes) {
      return fail_at("tokenizer.ggml.tokens", ErrorCode::kUnsupported, "token {} has {} bytes; weir allows {}", id,
                     vocab.tokens[id].size(), kMaxTokenBytes);
    }
    if (!vocab.scores.empty() && std::isnan(vocab.scores[id])) {
      return fail_at("tokenizer.ggml.scores", ErrorCode::kCorruptFile, "the score of token {} is not a number", id);
    }
    const int type = static_cast<int>(type_of(vocab, id));
    if (type < 1 || type > 6) {
      return fail_at("tokenizer.ggml.token_type", ErrorCode::kCorruptFile,
                     "token {} has type {}; types are 1 (normal) to 6 (byte)", id, type);
    }
  }
  const std::pair<const char*, std::optional<TokenId>> special[] = {
      {"bos", vocab.bos}, {"eos", vocab.eos},         {"eot", vocab.eot},
      {"eom", vocab.eom}, {"unknown", vocab.unknown}, {"padding", vocab.padding}};
  for (const auto& [key, id] : special) WEIR_RETURN_IF_ERROR(check_id(key, id, count));
  return {};
}

// Strings and flags by id; `bytes_of` gives what a token adds to a text.
template <class BytesOf>
std::unique_ptr<TokenSet> make_token_set(const VocabData& vocab, BytesOf bytes_of) {
  auto set = std::make_unique<TokenSet>();
  const std::size_t count = vocab.tokens.size();
  set->ids = TextIndex(count);
  for (std::size_t id = 0; id < count; ++id) {
    const TokenType type = type_of(vocab, id);
    set->texts.push_back(vocab.tokens[id]);
    set->bytes.push_back(bytes_of(vocab.tokens[id], type));
    std::uint8_t flags = kFlagPresent;
    if (is_control_type(type)) flags |= kFlagControl | kFlagMatched;
    if (type == TokenType::kUserDefined) flags |= kFlagMatched;
    set->flags.push_back(flags);
  }
  for (std::size_t id = 0; id < count; ++id) set->ids.insert(set->texts, static_cast<TokenId>(id));
  return set;
}

// Phi-3's tokenizer.json lets most of its control tokens, and </s>, take the white space behind them along; GGUF cannot
// say so.
bool takes_space_behind(const VocabData& vocab, std::string_view text, TokenType type) {
  if (vocab.architecture != "phi3") return false;
  if (text == "</s>") return true;
  return type == TokenType::kControl && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
}

AddedToken added_token(const VocabData& vocab, std::size_t id, std::string content) {
  const TokenType type = type_of(vocab, id);
  return {.id = static_cast<TokenId>(id),
          .content = std::move(content),
          .control = is_control_type(type),
          .strip_right = takes_space_behind(vocab, vocab.tokens[id], type)};
}

void add_framing(const VocabData& vocab, bool bos_by_default, PipelineParts& parts) {
  if (vocab.add_bos.value_or(bos_by_default) && vocab.bos) parts.before.push_back(*vocab.bos);
  if (vocab.add_eos.value_or(false) && vocab.eos) parts.after.push_back(*vocab.eos);
  parts.special = {.bos = vocab.bos, .eos = vocab.eos, .eot = vocab.eot, .eom = vocab.eom};
}

Status fill_pairs(const VocabData& vocab, const TokenSet& set, PairTable& pairs) {
  const std::size_t max_rank = Merge::kNoRank - 1;
  if (vocab.merges.size() > kMaxMerges || vocab.merges.size() > max_rank) {
    return fail_at("tokenizer.ggml.merges", ErrorCode::kUnsupported,
                   "tokenizer.ggml.merges has {} merges; weir allows {}", vocab.merges.size(), kMaxMerges);
  }
  for (std::size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    const std::string_view merge = vocab.merges[rank];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return fail_at("tokenizer.ggml.merges", ErrorCode::kCorruptFile, "merge {} has no space between two parts", rank);
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const auto find = [&](std::string_view text) { return set.ids.find(set.texts, text); };
    const TokenId l = find(left), r = find(right), joined = find(std::string(left) += right);
    if (l < 0 || r < 0 || joined < 0) {
      return fail_at("tokenizer.ggml.merges", ErrorCode::kCorruptFile,
                     "merge {} names or makes a token that is not among the {} tokens of the vocabulary", rank,
                     vocab.tokens.size());
    }
    // What a user writes never becomes a control token, whatever the merges say.
    if ((set.flags[static_cast<std::size_t>(joined)] & kFlagControl) != 0) continue;
    pairs.insert(l, r, {static_cast<std::uint32_t>(rank), joined});
  }
  return {};
}

Result<std::unique_ptr<Tokenizer>> byte_level_tokenizer(const VocabData& vocab) {
  WEIR_TRY(PreRules rules, rules_for_pre(vocab.pre));
  PipelineParts parts;
  std::vector<bool> mergeable(vocab.tokens.size(), false);
  std::size_t next = 0;
  parts.tokens = make_token_set(vocab, [&](const std::string& text, TokenType type) {
    const std::size_t id = next++;
    if (type == TokenType::kUserDefined || is_control_type(type)) return text;
    const auto bytes = chars_to_bytes(text);
    mergeable[id] = bytes && type != TokenType::kUnused;
    return bytes.value_or(text);
  });
  const TokenSet& set = *parts.tokens;

  PairBpeParts bpe;
  bpe.unit = BaseUnit::kByte;
  bpe.texts = &set.bytes;
  bpe.ignore_merges = rules.ignore_merges;
  bpe.index = TextIndex(vocab.tokens.size());
  std::vector<AddedToken> added;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (mergeable[id]) bpe.index.insert(set.bytes, static_cast<TokenId>(id));
    if ((set.flags[id] & kFlagMatched) != 0) added.push_back(added_token(vocab, id, vocab.tokens[id]));
  }
  bpe.pairs = PairTable(vocab.merges.size());
  WEIR_RETURN_IF_ERROR(fill_pairs(vocab, set, bpe.pairs));
  parts.model = std::make_unique<PairBpe>(std::move(bpe));
  parts.raw_added = AddedTokens(std::move(added));
  if (rules.nfc) {
    std::vector<NormalizerStep> steps;
    steps.emplace_back(FormStep{NormalForm::kNfc});
    WEIR_TRY(parts.normalizer, Normalizer::sequence(std::move(steps)));
  }
  std::vector<StagePtr> stages;
  for (const Scanner scanner : rules.scanners) stages.push_back(scanner_stage(scanner));
  WEIR_TRY(parts.pre_tokenizer, PreTokenizer::chain(std::move(stages)));
  add_framing(vocab, rules.add_bos, parts);
  return make_pipeline(std::move(parts));
}

// Ids by falling score -> ranks; equal scores share one, so that the leftmost of them is joined first.
std::vector<std::uint32_t> ranks_by_score(const std::vector<float>& scores, std::size_t count) {
  std::vector<std::uint32_t> ranks(count, 0);
  if (scores.empty()) return ranks;
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    ranks[order[i]] = rank;
  }
  return ranks;
}

Result<ByteFallback> byte_tokens(const VocabData& vocab) {
  ByteFallback fallback;
  fallback.ids.fill(-1);
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (type_of(vocab, id) != TokenType::kByte) continue;
    const auto byte = parse_byte_token(vocab.tokens[id]);
    if (!byte) {
      return fail_at("tokenizer.ggml.tokens", ErrorCode::kCorruptFile,
                     "token {} has type 6 (byte), but its text is not <0x00> to <0xFF>", id);
    }
    TokenId& slot = fallback.ids[*byte];
    if (slot < 0) slot = static_cast<TokenId>(id);
  }
  return fallback;
}

Result<std::unique_ptr<Tokenizer>> sentencepiece_tokenizer(VocabData vocab) {
  // The numbers of Llama's first vocabulary, which files without the keys mean.
  const auto by_default = [&](std::optional<TokenId>& id, TokenId value) {
    if (!id && static_cast<std::size_t>(value) < vocab.tokens.size()) id = value;
  };
  by_default(vocab.unknown, 0);
  by_default(vocab.bos, 1);
  by_default(vocab.eos, 2);
  PipelineParts parts;
  parts.tokens = make_token_set(vocab, [](const std::string& text, TokenType type) {
    if (is_control_type(type)) return text;
    if (const auto byte = parse_byte_token(text); type == TokenType::kByte && byte)
      return std::string(1, static_cast<char>(*byte));
    return replace_all(text, kSpaceMark, " ");
  });
  const TokenSet& set = *parts.tokens;
  const std::size_t count = vocab.tokens.size();

  ScoreBpeParts bpe;
  bpe.texts = &set.texts;
  bpe.index = TextIndex(count);
  bpe.ranks = ranks_by_score(vocab.scores, count);
  bpe.unknown = vocab.unknown;
  bpe.cut_before_space_mark = true;
  std::vector<AddedToken> raw, normalized;
  for (std::size_t id = 0; id < count; ++id) {
    const TokenType type = type_of(vocab, id);
    const std::string& text = vocab.tokens[id];
    if (type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kUnused) {
      bpe.index.insert(set.texts, static_cast<TokenId>(id));
      bpe.cut_before_space_mark = bpe.cut_before_space_mark && space_mark_only_leads(text);
    }
    if (type == TokenType::kUnused) {
      bpe.unused.resize(count, false);
      bpe.unused[id] = true;
    }
    if ((set.flags[id] & kFlagMatched) == 0) continue;
    // User-defined runs of spaces match behind the replacement of spaces, where a U+2581 of the text itself counts as
    // one.
    const bool spaced = type == TokenType::kUserDefined &&
                        (text.find(' ') != std::string::npos || text.find(kSpaceMark) != std::string::npos);
    auto& list = spaced ? normalized : raw;
    list.push_back(added_token(vocab, id, spaced ? replace_all(text, " ", kSpaceMark) : text));
  }
  WEIR_TRY(bpe.byte_fallback, byte_tokens(vocab));
  parts.model = std::make_unique<ScoreBpe>(std::move(bpe));
  parts.raw_added = AddedTokens(std::move(raw));
  parts.normalized_added = AddedTokens(std::move(normalized));

  const bool prefix = vocab.add_space_prefix.value_or(true);
  std::vector<NormalizerStep> steps;
  if (vocab.remove_extra_whitespaces.value_or(false)) steps.emplace_back(SqueezeSpacesStep{});
  if (prefix) steps.emplace_back(PrependStep{std::string(kSpaceMark)});
  steps.emplace_back(ReplaceStep{" ", std::string(kSpaceMark)});
  WEIR_TRY(parts.normalizer, Normalizer::sequence(std::move(steps)));
  parts.strip_first_space = prefix;
  add_framing(vocab, true, parts);
  return make_pipeline(std::move(parts));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_vocab(VocabData vocab) {
  WEIR_RETURN_IF_ERROR(check_vocab(vocab));
  if (vocab.model == "gpt2") return byte_level_tokenizer(vocab);
  if (vocab.model == "llama") return sentencepiece_tokenizer(std::move(vocab));
  return fail_at("tokenizer.ggml.model", ErrorCode::kUnsupported,
                 "tokenizer.ggml.model is \"{}\"; weir knows gpt2 (byte-level BPE) and llama (SentencePiece BPE)",
                 vocab.model);
}

}  // namespace weir::text
