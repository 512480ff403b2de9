// BPE models: word -> ids. Two ways to find a merge: a table of ranked pairs (byte-level and Hugging Face models), or
// the joined text's piece and score (SentencePiece).
//
// Immutable but for a memo of one atomic byte per token; any number of threads without locks. Cost: a word that is one
// token costs one look-up, others the merge loop (merge.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "text/tokenizer/merge.h"
#include "text/tokenizer/token_table.h"

namespace weir::text {

// Scratch memory of one encode() call.
struct EncodeSpace {
  MergeWorkspace merge;
  std::vector<Symbol> symbols;
  std::vector<Symbol> stack;
  std::unordered_map<TokenId, std::uint32_t> parted;  // unused piece -> size of the left part it was joined from
  // Of Unigram: the best way to each byte of the word.
  struct Path {
    double score = 0;
    std::size_t from = 0;
    TokenId id = -1;
    bool reached = false;
  };
  std::vector<Path> paths;
  std::vector<std::size_t> cuts;
};

class WordModel {
 public:
  virtual ~WordModel() = default;
  virtual void encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const = 0;
};

// (left, right) -> rank and joined id. Open addressing, at most half full.
class PairTable {
 public:
  explicit PairTable(std::size_t max_pairs);
  // The first rank inserted for a pair stays.
  void insert(TokenId left, TokenId right, Merge merge);
  Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    TokenId left = -1, right = -1;
    Merge merge;
  };
  std::size_t mask_;
  std::vector<Slot> slots_;
};

// Which tokens are also what their own text becomes. Found out at first use; two threads may find out twice.
class SelfTokens {
 public:
  explicit SelfTokens(std::size_t tokens) : known_(tokens) {}
  enum class Answer : std::uint8_t { kUnknown, kYes, kNo };
  Answer get(TokenId id) const {
    return static_cast<Answer>(known_[static_cast<std::size_t>(id)].load(std::memory_order_relaxed));
  }
  void set(TokenId id, bool yes) const {
    known_[static_cast<std::size_t>(id)].store(static_cast<std::uint8_t>(yes ? Answer::kYes : Answer::kNo),
                                               std::memory_order_relaxed);
  }

 private:
  mutable std::vector<std::atomic<std::uint8_t>> known_;
};

struct ByteFallback {
  std::array<TokenId, 256> ids;  // -1: no token for this byte
};

// What a word is cut into before merging.
enum class BaseUnit { kByte, kChar };

struct PairBpeParts {
  BaseUnit unit = BaseUnit::kByte;
  const TokenTable* texts = nullptr;  // by id, in the form that words have; outlives the model
  TextIndex index;                    // ids that a word or character may become: no control tokens
  PairTable pairs{0};
  bool ignore_merges = false;                 // a word that is a token is that token
  std::optional<ByteFallback> byte_fallback;  // for characters without a token
  std::optional<TokenId> unknown;             // else; if absent too the character gives nothing
  bool fuse_unknown = false;
  std::string subword_prefix, word_suffix;  // what tokens have that do not begin, or that end a word
  bool cut_before_space_mark = false;       // no merge joins something with a following U+2581: words may be cut there
};

class PairBpe : public WordModel {
 public:
  explicit PairBpe(PairBpeParts parts);
  void encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const override;

 private:
  void encode_word(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const;
  void merge_word(std::string_view word, EncodeSpace& space) const;
  void push_char(std::string_view text, TokenId id, std::uint32_t at, std::vector<Symbol>& symbols) const;
  void push_unknown(std::uint32_t size, std::uint32_t at, std::vector<Symbol>& symbols) const;
  TokenId char_token(std::string_view text) const;
  bool has_affixes() const { return !parts_.subword_prefix.empty() || !parts_.word_suffix.empty(); }
  void push_affixed(std::string_view word, EncodeSpace& space) const;

  PairBpeParts parts_;
  SelfTokens self_;
  std::array<TokenId, 256> byte_ids_;
};

// Where words arrive as GPT-2's characters: back to bytes for the model.
class CharsToBytes : public WordModel {
 public:
  explicit CharsToBytes(std::unique_ptr<WordModel> model) : model_(std::move(model)) {}
  void encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const override;

 private:
  std::unique_ptr<WordModel> model_;
};

struct ScoreBpeParts {
  const TokenTable* texts = nullptr;  // by id, with U+2581 for the space; outlives the model
  TextIndex index;                    // normal, user-defined and unused pieces
  std::vector<std::uint32_t> ranks;   // by id: equal scores have equal ranks, the best score rank 0
  std::vector<bool> unused;  // by id; may be empty. Such pieces may be passed through but are taken apart at the end
  ByteFallback byte_fallback;
  std::optional<TokenId> unknown;
  bool cut_before_space_mark = false;
};

class ScoreBpe : public WordModel {
 public:
  explicit ScoreBpe(ScoreBpeParts parts);
  void encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const override;

 private:
  void encode_word(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const;
  void emit(std::string_view word, Symbol symbol, EncodeSpace& space, std::vector<TokenId>& out) const;
  void emit_unknown(std::string_view text, std::vector<TokenId>& out) const;
  bool is_unused(TokenId id) const { return !parts_.unused.empty() && parts_.unused[static_cast<std::size_t>(id)]; }

  ScoreBpeParts parts_;
  SelfTokens self_;
};

// Whether the token has U+2581 nowhere but at its start (a run of them counts as one start).
bool space_mark_only_leads(std::string_view token);

}  // namespace weir::text
