// BPE vocabularies of GGUF files. What the file leaves to the program (split patterns, NFC, whole-word look-ups) is
// looked up by the name of the pre-tokenizer in gguf_pre.h.
#include <algorithm>
#include <numeric>
#include <utility>

#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/gguf_parts.h"
#include "text/tokenizer/gguf_pre.h"

namespace weir::text {

Result<std::unique_ptr<Tokenizer>> byte_level_tokenizer(const VocabData& vocab) {
  WEIR_TRY(PreRules rules, rules_for_pre(vocab.pre));
  if (rules.whole_text) return whole_text_tokenizer(vocab);
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
  if (gives_byte_chars(rules)) parts.model = std::make_unique<CharsToBytes>(std::move(parts.model));
  WEIR_TRY(std::vector<StagePtr> stages, stages_for(rules));
  WEIR_TRY(parts.pre_tokenizer, PreTokenizer::chain(std::move(stages)));
  add_framing(vocab, rules.add_bos, false, parts);
  return make_pipeline(std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> whole_text_tokenizer(const VocabData& vocab) {
  PipelineParts parts;
  parts.tokens = make_token_set(vocab, spaced_bytes);
  const TokenSet& set = *parts.tokens;
  PairBpeParts bpe;
  bpe.unit = BaseUnit::kChar;
  bpe.texts = &set.texts;
  bpe.index = TextIndex(vocab.tokens.size());
  bpe.unknown = vocab.unknown;
  bpe.fuse_unknown = true;
  std::vector<AddedToken> raw, normalized;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    const TokenType type = type_of(vocab, id);
    const std::string& text = vocab.tokens[id];
    if (type == TokenType::kNormal || type == TokenType::kUserDefined)
      bpe.index.insert(set.texts, static_cast<TokenId>(id));
    if ((set.flags[id] & kFlagMatched) == 0) continue;
    const bool spaced = text.find(' ') != std::string::npos || text.find(kSpaceMark) != std::string::npos;
    auto& list = spaced ? normalized : raw;
    list.push_back(added_token(vocab, id, spaced ? replace_all(text, " ", kSpaceMark) : text));
  }
  WEIR_TRY(bpe.byte_fallback, byte_tokens(vocab));
  bpe.pairs = PairTable(vocab.merges.size());
  WEIR_RETURN_IF_ERROR(fill_pairs(vocab, set, bpe.pairs));
  parts.model = std::make_unique<PairBpe>(std::move(bpe));
  parts.raw_added = AddedTokens(std::move(raw));
  parts.normalized_added = AddedTokens(std::move(normalized));
  std::vector<NormalizerStep> steps;
  steps.emplace_back(ReplaceStep{" ", std::string(kSpaceMark)});
  WEIR_TRY(parts.normalizer, Normalizer::sequence(std::move(steps)));
  add_framing(vocab, false, false, parts);
  return make_pipeline(std::move(parts));
}

namespace {

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

}  // namespace

Result<std::unique_ptr<Tokenizer>> sentencepiece_tokenizer(VocabData vocab) {
  // The numbers of Llama's first vocabulary, which files without the keys mean.
  const auto by_default = [&](std::optional<TokenId>& id, TokenId value) {
    if (!id && static_cast<std::size_t>(value) < vocab.tokens.size()) id = value;
  };
  by_default(vocab.unknown, 0);
  by_default(vocab.bos, 1);
  by_default(vocab.eos, 2);
  PipelineParts parts;
  parts.tokens = make_token_set(vocab, spaced_bytes);
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
  if (!vocab.charsmap.empty()) {
    WEIR_TRY(Charsmap map, Charsmap::parse(vocab.charsmap));
    steps.emplace_back(CharsmapStep{std::move(map), CharsmapUnits::kLongestPrefix});
  }
  if (vocab.remove_extra_whitespaces.value_or(false)) steps.emplace_back(SqueezeSpacesStep{});
  if (prefix) steps.emplace_back(PrependStep{std::string(kSpaceMark)});
  steps.emplace_back(ReplaceStep{" ", std::string(kSpaceMark)});
  WEIR_TRY(parts.normalizer, Normalizer::sequence(std::move(steps)));
  parts.strip_first_space = prefix;
  add_framing(vocab, true, false, parts);
  return make_pipeline(std::move(parts));
}

}  // namespace weir::text
