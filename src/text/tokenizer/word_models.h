// Models without merges: WordPiece (BERT), Unigram (SentencePiece, T5, XLM-R), tiktoken's BPE by ranks, WordLevel.
//
// Immutable; any number of threads. Cost: linear in the word times the longest piece. Sources: Devlin et al. 2018 and
// the tokenizers library's behaviour for WordPiece; Kudo 2018 (subword regularization, Viterbi search) for Unigram.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/trie.h"

namespace weir::text {

struct WordPieceParts {
  Trie starts;         // pieces that begin a word
  Trie continuations;  // pieces inside one, without their mark
  std::optional<TokenId> unknown;
  std::size_t max_chars = 100;  // a longer word is unknown as a whole
};

// The longest piece again and again; a word that has none somewhere is one unknown token.
class WordPiece : public WordModel {
 public:
  explicit WordPiece(WordPieceParts parts) : parts_(std::move(parts)) {}
  void encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const override;

 private:
  WordPieceParts parts_;
};

struct UnigramParts {
  Trie pieces;                 // what text may become: no control tokens
  std::vector<double> scores;  // by id: log probabilities
  double unknown_score = 0;    // of a character without a piece
  std::optional<TokenId> unknown;
  std::optional<ByteFallback> byte_fallback;
};

// The sequence of pieces with the highest sum of scores. Characters without a piece are joined, then become bytes or
// one unknown token.
class Unigram : public WordModel {
 public:
  static constexpr double kUnknownPenalty = 10;  // below the lowest score

  explicit Unigram(UnigramParts parts) : parts_(std::move(parts)) {}
  void encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const override;

 private:
  void emit_unknown(std::string_view text, std::vector<TokenId>& out) const;

  UnigramParts parts_;
};

// Byte-level BPE whose merges are not listed: two neighbours join if their bytes are a token, the lowest id first
// (tiktoken). A word that is a token is that token; a byte without one gives nothing.
class RankBpe : public WordModel {
 public:
  RankBpe(const TokenTable* bytes, TextIndex index) : bytes_(bytes), index_(std::move(index)) {}
  void encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const override;

 private:
  const TokenTable* bytes_;
  TextIndex index_;
};

// A word is a token or unknown.
class WordLevel : public WordModel {
 public:
  WordLevel(const TokenTable* texts, TextIndex index, std::optional<TokenId> unknown)
      : texts_(texts), index_(std::move(index)), unknown_(unknown) {}
  void encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const override;

 private:
  const TokenTable* texts_;
  TextIndex index_;
  std::optional<TokenId> unknown_;
};

}  // namespace weir::text
