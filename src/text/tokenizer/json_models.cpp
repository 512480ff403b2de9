#include "text/tokenizer/json_models.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "text/tokenizer/json_parts.h"
#include "text/tokenizer/word_models.h"

namespace weir::text {
namespace {

using nlohmann::json;

constexpr std::string_view kSpaceMark = "\u2581";
constexpr std::size_t kMaxAffixBytes = 256;  // put beside every character

std::string string_or_empty(const json& node, const char* key) {
  const json& value = json_member(node, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// Files of early versions do not say what they hold; its parts tell.
std::string kind_of(const json& model) {
  if (const std::string type = json_type(model); !type.empty()) return type;
  if (model.is_object() && model.contains("unk_id")) return "Unigram";
  if (model.is_object() && model.contains("max_input_chars_per_word")) return "WordPiece";
  return "BPE";
}

bool is_control(const TokenSet& set, TokenId id) {
  return (set.flags[static_cast<std::size_t>(id)] & kFlagControl) != 0;
}

std::optional<ByteFallback> byte_fallback(const TokenSet& set) {
  ByteFallback fallback;
  bool any = false;
  for (unsigned byte = 0; byte < 256; ++byte) {
    fallback.ids[byte] = set.ids.find(set.texts, fmt::format("<0x{:02X}>", byte));
    any = any || fallback.ids[byte] >= 0;
  }
  return any ? std::optional(fallback) : std::nullopt;
}

Result<std::optional<TokenId>> unknown_token(const json& model, const TokenSet& set) {
  const std::string name = string_or_empty(model, "unk_token");
  if (name.empty()) return std::optional<TokenId>();
  const TokenId id = set.ids.find(set.texts, name);
  if (id < 0) {
    return fail(ErrorCode::kCorruptFile, "unk_token \"{}\" of tokenizer.json is not in its vocabulary", name);
  }
  return std::optional(id);
}

// Ids that text may become: those of the vocabulary but control tokens.
TextIndex index_of(const TokenizerDocument& document, const TokenSet& set, const TokenTable& texts) {
  TextIndex index(set.texts.size());
  for (const auto& [text, number] : document.vocab) {
    const auto id = static_cast<TokenId>(number);
    if (!is_control(set, id) && !texts[id].empty()) index.insert(texts, id);
  }
  return index;
}

Status fill_pairs(const TokenizerDocument& document, const TokenSet& set, PairBpeParts& bpe) {
  bpe.pairs = PairTable(document.merges.size());
  const auto find = [&](std::string_view text) { return set.ids.find(set.texts, text); };
  std::uint32_t rank = 0;
  for (const auto& [left, right] : document.merges) {
    const std::size_t prefix = std::min(bpe.subword_prefix.size(), right.size());
    const std::string joined = left + right.substr(prefix);
    const TokenId l = find(left), r = find(right), id = find(joined);
    if (l < 0 || r < 0 || id < 0) {
      return fail(ErrorCode::kCorruptFile,
                  "merge {} of tokenizer.json (\"{}\" and \"{}\") names or makes a token that model.vocab lacks", rank,
                  left, right);
    }
    // What a user writes never becomes a control token, whatever the merges say.
    if (!is_control(set, id)) bpe.pairs.insert(l, r, {rank, id});
    if (!space_mark_only_leads(joined)) bpe.cut_before_space_mark = false;
    ++rank;
  }
  return {};
}

Result<std::unique_ptr<WordModel>> make_bpe(const TokenizerDocument& document, const TokenSet& set, bool byte_level) {
  const json& model = json_member(document.rest, "model");
  PairBpeParts bpe;
  bpe.unit = byte_level ? BaseUnit::kByte : BaseUnit::kChar;
  bpe.texts = byte_level ? &set.forms : &set.texts;
  bpe.index = index_of(document, set, *bpe.texts);
  bpe.ignore_merges = json_flag(model, "ignore_merges", false);
  bpe.fuse_unknown = json_flag(model, "fuse_unk", false);
  bpe.subword_prefix = string_or_empty(model, "continuing_subword_prefix");
  bpe.word_suffix = string_or_empty(model, "end_of_word_suffix");
  if (bpe.subword_prefix.size() + bpe.word_suffix.size() > kMaxAffixBytes) {
    return fail(ErrorCode::kUnsupported,
                "continuing_subword_prefix and end_of_word_suffix of tokenizer.json have {} bytes; weir allows {}",
                bpe.subword_prefix.size() + bpe.word_suffix.size(), kMaxAffixBytes);
  }
  // With an unknown space mark, unknown characters on both sides of it could become one token.
  bpe.cut_before_space_mark = !byte_level && !bpe.ignore_merges && bpe.subword_prefix.empty() &&
                              bpe.word_suffix.empty() && bpe.index.find(*bpe.texts, kSpaceMark) >= 0;
  WEIR_RETURN_IF_ERROR(fill_pairs(document, set, bpe));
  if (json_flag(model, "byte_fallback", false)) bpe.byte_fallback = byte_fallback(set);
  WEIR_TRY(bpe.unknown, unknown_token(model, set));
  return std::make_unique<PairBpe>(std::move(bpe));
}

Result<std::unique_ptr<WordModel>> make_word_piece(const TokenizerDocument& document, const TokenSet& set) {
  const json& model = json_member(document.rest, "model");
  WordPieceParts parts;
  WEIR_TRY(parts.unknown, unknown_token(model, set));
  const json& most = json_member(model, "max_input_chars_per_word");
  if (most.is_number_unsigned()) parts.max_chars = most.get<std::size_t>();
  const json& prefix_node = json_member(model, "continuing_subword_prefix");
  const std::string prefix = prefix_node.is_string() ? prefix_node.get<std::string>() : "##";
  std::vector<std::pair<std::string_view, std::int32_t>> starts, continuations;
  for (const auto& [text, number] : document.vocab) {
    const auto id = static_cast<TokenId>(number);
    if (is_control(set, id)) continue;
    const std::string_view piece = text;
    starts.emplace_back(piece, id);
    if (piece.starts_with(prefix)) continuations.emplace_back(piece.substr(prefix.size()), id);
  }
  parts.starts = Trie(std::move(starts));
  parts.continuations = Trie(std::move(continuations));
  return std::make_unique<WordPiece>(std::move(parts));
}

Result<std::unique_ptr<WordModel>> make_unigram(const TokenizerDocument& document, const TokenSet& set) {
  const json& model = json_member(document.rest, "model");
  UnigramParts parts;
  if (document.scores.size() != document.vocab.size()) {
    return fail(ErrorCode::kCorruptFile, "the vocabulary of the Unigram model in tokenizer.json is no list of scores");
  }
  double lowest = 0;
  parts.scores.resize(set.texts.size());
  std::vector<std::pair<std::string_view, std::int32_t>> pieces;
  for (std::size_t i = 0; i < document.vocab.size(); ++i) {
    lowest = i == 0 ? document.scores[i] : std::min(lowest, document.scores[i]);
    const auto id = static_cast<TokenId>(document.vocab[i].second);
    parts.scores[static_cast<std::size_t>(id)] = document.scores[i];
    if (!is_control(set, id)) pieces.emplace_back(document.vocab[i].first, id);
  }
  parts.unknown_score = lowest - Unigram::kUnknownPenalty;
  parts.pieces = Trie(std::move(pieces));
  const json& unknown = json_member(model, "unk_id");
  if (!unknown.is_null()) {
    if (!unknown.is_number_unsigned() || unknown.get<std::uint64_t>() >= document.vocab.size()) {
      return fail(ErrorCode::kCorruptFile, "unk_id of the Unigram model in tokenizer.json is not among its {} pieces",
                  document.vocab.size());
    }
    parts.unknown = unknown.get<TokenId>();
  }
  if (json_flag(model, "byte_fallback", false)) parts.byte_fallback = byte_fallback(set);
  return std::make_unique<Unigram>(std::move(parts));
}

}  // namespace

Status check_json_model(const json& model) {
  const std::string kind = kind_of(model);
  if (kind != "BPE" && kind != "WordPiece" && kind != "Unigram" && kind != "WordLevel") {
    return fail(ErrorCode::kUnsupported,
                "tokenizer.json has a model of type \"{}\"; weir knows BPE, Unigram, WordPiece and WordLevel", kind);
  }
  const json& dropout = json_member(model, "dropout");
  if (dropout.is_number() && dropout.get<double>() > 0) {
    return fail(ErrorCode::kUnsupported, "the BPE model of tokenizer.json has dropout {}: it would give random tokens",
                dropout.get<double>());
  }
  return {};
}

Result<std::unique_ptr<WordModel>> model_from_json(const TokenizerDocument& document, const TokenSet& set,
                                                   bool byte_level) {
  const json& model = json_member(document.rest, "model");
  const std::string kind = kind_of(model);
  if (kind == "WordPiece") return make_word_piece(document, set);
  if (kind == "Unigram") return make_unigram(document, set);
  if (kind == "BPE") return make_bpe(document, set, byte_level);
  WEIR_TRY(const auto unknown, unknown_token(model, set));
  return std::make_unique<WordLevel>(&set.texts, index_of(document, set, set.texts), unknown);
}

}  // namespace weir::text
