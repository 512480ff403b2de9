// Vocabularies of GGUF files without merges: Unigram ("t5") and WordPiece ("bert").
#include <algorithm>
#include <utility>

#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/gguf_parts.h"
#include "text/tokenizer/word_models.h"

namespace weir::text {
namespace {

// The number a family's files mean where they do not say.
void by_default(const VocabData& vocab, std::optional<TokenId>& id, TokenId value) {
  if (!id && static_cast<std::size_t>(value) < vocab.tokens.size()) id = value;
}

std::vector<AddedToken> matched_tokens(const VocabData& vocab, const TokenSet& set) {
  std::vector<AddedToken> added;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if ((set.flags[id] & kFlagMatched) != 0) added.push_back(added_token(vocab, id, vocab.tokens[id]));
  }
  return added;
}

}  // namespace

// SentencePiece's order: the map, white space, the prefix, then spaces become U+2581.
Result<std::unique_ptr<Tokenizer>> unigram_tokenizer(VocabData vocab) {
  by_default(vocab, vocab.eos, 1);
  by_default(vocab, vocab.unknown, 2);
  PipelineParts parts;
  parts.tokens = make_token_set(vocab, spaced_bytes);
  const TokenSet& set = *parts.tokens;
  UnigramParts model;
  model.unknown = vocab.unknown;
  std::vector<std::pair<std::string_view, std::int32_t>> pieces;
  double lowest = 0;
  bool any = false, bytes = false;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    const TokenType type = type_of(vocab, id);
    const double score = vocab.scores.empty() ? 0 : static_cast<double>(vocab.scores[id]);
    model.scores.push_back(type == TokenType::kUserDefined ? 0 : score);
    bytes = bytes || type == TokenType::kByte;
    if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
    pieces.emplace_back(vocab.tokens[id], static_cast<std::int32_t>(id));
    if (type == TokenType::kNormal) lowest = any ? std::min(lowest, score) : score;
    any = any || type == TokenType::kNormal;
  }
  model.pieces = Trie(std::move(pieces));
  model.unknown_score = lowest - Unigram::kUnknownPenalty;
  if (bytes) {
    WEIR_TRY(model.byte_fallback, byte_tokens(vocab));
  }
  parts.model = std::make_unique<Unigram>(std::move(model));
  parts.raw_added = AddedTokens(matched_tokens(vocab, set));

  std::vector<NormalizerStep> steps;
  if (!vocab.charsmap.empty()) {
    WEIR_TRY(Charsmap map, Charsmap::parse(vocab.charsmap));
    steps.emplace_back(CharsmapStep{std::move(map), CharsmapUnits::kLongestPrefix});
  }
  if (vocab.remove_extra_whitespaces.value_or(false)) steps.emplace_back(SqueezeSpacesStep{});
  const bool prefix = vocab.add_space_prefix.value_or(true);
  if (prefix) steps.emplace_back(PrependStep{std::string(kSpaceMark)});
  steps.emplace_back(ReplaceStep{" ", std::string(kSpaceMark)});
  WEIR_TRY(parts.normalizer, Normalizer::sequence(std::move(steps)));
  parts.strip_first_space = prefix;
  add_framing(vocab, false, true, parts);
  return make_pipeline(std::move(parts));
}

// In the file U+2581 begins a word, where BERT's own vocabulary has "##" inside one.
Result<std::unique_ptr<Tokenizer>> word_piece_tokenizer(VocabData vocab) {
  if (!vocab.cls) vocab.cls = vocab.bos;
  if (!vocab.separator) vocab.separator = vocab.eos;
  by_default(vocab, vocab.unknown, 100);
  by_default(vocab, vocab.cls, 101);
  by_default(vocab, vocab.separator, 102);
  PipelineParts parts;
  parts.tokens = make_token_set(vocab, [](const std::string& text, TokenType type) {
    return is_control_type(type) ? " " + text : replace_all(text, kSpaceMark, " ");
  });
  TokenSet& set = *parts.tokens;
  WordPieceParts model;
  model.unknown = vocab.unknown;
  std::vector<std::pair<std::string_view, std::int32_t>> starts, continuations;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    const std::string_view bytes = set.bytes[static_cast<TokenId>(id)];
    set.first_bytes.push_back(bytes.starts_with(' ') ? bytes.substr(1) : bytes);
    if (is_control_type(type_of(vocab, id))) continue;
    std::string_view piece = vocab.tokens[id];
    const bool begins = piece.starts_with(kSpaceMark);
    if (begins) piece.remove_prefix(kSpaceMark.size());
    (begins ? starts : continuations).emplace_back(piece, static_cast<std::int32_t>(id));
  }
  model.starts = Trie(std::move(starts));
  model.continuations = Trie(std::move(continuations));
  parts.model = std::make_unique<WordPiece>(std::move(model));
  parts.raw_added = AddedTokens(matched_tokens(vocab, set));

  std::vector<NormalizerStep> steps;
  const bool lowercase = vocab.lowercase.value_or(true);
  steps.emplace_back(BertStep{.strip_accents = vocab.strip_accents.value_or(lowercase), .lowercase = lowercase});
  WEIR_TRY(parts.normalizer, Normalizer::sequence(std::move(steps)));
  std::vector<StagePtr> stages;
  stages.push_back(char_set_stage(CharKind::kSpace, SplitBehavior::kRemoved));
  stages.push_back(char_set_stage(CharKind::kPunctuation, SplitBehavior::kIsolated));
  WEIR_TRY(parts.pre_tokenizer, PreTokenizer::chain(std::move(stages)));
  if (vocab.add_bos.value_or(true) && vocab.cls) parts.before.push_back(*vocab.cls);
  if (vocab.add_separator.value_or(true) && vocab.separator) parts.after.push_back(*vocab.separator);
  parts.special = {.bos = vocab.bos, .eos = vocab.eos, .eot = vocab.eot, .eom = vocab.eom};
  return make_pipeline(std::move(parts));
}

}  // namespace weir::text
