// Tokenizer: text <-> token ids, equal to the model's own tokenizer library.
//
// Built from a Hugging Face tokenizer.json (then that file rules) or from GGUF metadata. Immutable after construction,
// so any number of threads may use one. Time is linear in the text (n log n inside one merge run) whatever the text;
// nothing recurses over it.
//
// Special tokens are recognised only where the caller allows it: user text never becomes a control token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/vocab_data.h"

namespace weir::text {

struct ByteRange {
  std::size_t begin = 0, end = 0;  // [begin, end)
};

struct EncodeOptions {
  bool add_special = false;    // what the file puts around a text (BOS, EOS, [CLS] ...), also around an empty one
  bool parse_special = false;  // control tokens written in the text become their ids; user-defined ones always do
  // With parse_special: sorted, disjoint ranges that a control token may not touch, e.g. what the user wrote inside a
  // chat template. The text is still split and merged as a whole, so harmless text gets exactly the ids of the plain
  // rendering.
  std::span<const ByteRange> literal = {};
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  static Result<std::unique_ptr<Tokenizer>> from_vocab(VocabData vocab);
  // `tokenizer_config` may be empty; it adds what tokenizer.json lacks (bos_token, eos_token, add_bos_token of older
  // files).
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view tokenizer_json,
                                                      std::string_view tokenizer_config);

  // What folders without a tokenizer.json have: SentencePiece's tokenizer.model, Mistral's tekken.json, and lists of
  // ranks as tiktoken has them (tiktoken.model, Llama 3's tokenizer.model; the split pattern goes by the family that
  // tokenizer_config names).
  static Result<std::unique_ptr<Tokenizer>> from_sentencepiece(std::string_view model,
                                                               std::string_view tokenizer_config);
  static Result<std::unique_ptr<Tokenizer>> from_tekken(std::string_view json);
  static Result<std::unique_ptr<Tokenizer>> from_tiktoken(std::string_view ranks, std::string_view tokenizer_config);

  // Never fails: text that is not valid UTF-8 is encoded byte by byte where the vocabulary can, else dropped to the
  // unknown token.
  virtual std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const = 0;

  // The bytes a token adds to the text when it is not the first one; empty for ids the vocabulary does not have and,
  // with skip_special, for control tokens. Not necessarily valid UTF-8 alone.
  virtual std::string_view token_bytes(TokenId id, bool skip_special) const = 0;
  // The same for a token at the very start of a text: SentencePiece models drop the one space they put there.
  virtual std::string_view first_token_bytes(TokenId id, bool skip_special) const = 0;

  // How many of these bytes, at their end, stand only if another token follows (the space that ends a word, where the
  // vocabulary marks ends of words).
  virtual std::size_t tail_bytes(TokenId id) const = 0;

  // Joined bytes of the ids as one text (first_token_bytes for the first), invalid UTF-8 replaced by U+FFFD.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  virtual TokenId vocab_size() const = 0;  // ids are in [0, vocab_size)
  virtual bool is_control(TokenId id) const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  // The vocabulary's own spelling of a token ("Ġthe", "<0x0A>", "<|im_end|>"); empty for ids it does not have.
  virtual std::string_view token_text(TokenId id) const = 0;
  virtual std::optional<TokenId> id_of(std::string_view token_text) const = 0;
  // Ids that end a reply by their name or key: eos, eot, eom and well-known spellings (<|im_end|>, <end_of_turn>,
  // <|eot_id|> ...).
  virtual std::vector<TokenId> end_of_generation_ids() const = 0;
};

}  // namespace weir::text
