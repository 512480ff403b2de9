// Tokenizer::from_vocab: a vocabulary as GGUF states it -> Pipeline: the checks, and the parts that its readers share
// (gguf_bpe.cpp, gguf_pieces.cpp).
#include <cmath>
#include <string>
#include <utility>

#include "text/tokenizer.h"
#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/gguf_parts.h"
#include "text/tokenizer/limits.h"

namespace weir::text {
namespace {

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
      {"bos", vocab.bos},         {"eos", vocab.eos},        {"eot", vocab.eot},
      {"eom", vocab.eom},         {"cls", vocab.cls},        {"seperator", vocab.separator},
      {"unknown", vocab.unknown}, {"padding", vocab.padding}};
  for (const auto& [key, id] : special) WEIR_RETURN_IF_ERROR(check_id(key, id, count));
  return {};
}

// Phi-3's tokenizer.json lets most of its control tokens, and </s>, take the white space behind them along; GGUF cannot
// say so.
bool takes_space_behind(const VocabData& vocab, std::string_view text, TokenType type) {
  if (vocab.architecture != "phi3") return false;
  if (text == "</s>") return true;
  return type == TokenType::kControl && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
}

}  // namespace

AddedToken added_token(const VocabData& vocab, std::size_t id, std::string content) {
  const TokenType type = type_of(vocab, id);
  return {.id = static_cast<TokenId>(id),
          .content = std::move(content),
          .control = is_control_type(type),
          .strip_right = takes_space_behind(vocab, vocab.tokens[id], type)};
}

void add_framing(const VocabData& vocab, bool bos_by_default, bool eos_by_default, PipelineParts& parts) {
  if (vocab.add_bos.value_or(bos_by_default) && vocab.bos) parts.before.push_back(*vocab.bos);
  if (vocab.add_eos.value_or(eos_by_default) && vocab.eos) parts.after.push_back(*vocab.eos);
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

std::string spaced_bytes(const std::string& text, TokenType type) {
  if (is_control_type(type)) return text;
  if (const auto byte = parse_byte_token(text); type == TokenType::kByte && byte)
    return std::string(1, static_cast<char>(*byte));
  return replace_all(text, kSpaceMark, " ");
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_vocab(VocabData vocab) {
  WEIR_RETURN_IF_ERROR(check_vocab(vocab));
  if (vocab.model == "gpt2") return byte_level_tokenizer(vocab);
  if (vocab.model == "llama") return sentencepiece_tokenizer(std::move(vocab));
  if (vocab.model == "bert") return word_piece_tokenizer(std::move(vocab));
  if (vocab.model == "t5") return unigram_tokenizer(std::move(vocab));
  if (vocab.model == "gemma4") return whole_text_tokenizer(vocab);
  return fail_at(
      "tokenizer.ggml.model", ErrorCode::kUnsupported,
      "tokenizer.ggml.model is \"{}\"; weir knows gpt2 (byte-level BPE), llama and gemma4 (SentencePiece BPE), t5 "
      "(Unigram) and bert (WordPiece)",
      vocab.model);
}

}  // namespace weir::text
