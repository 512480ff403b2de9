// What the readers of GGUF vocabularies share.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/pipeline.h"
#include "text/vocab_data.h"

namespace weir::text {

inline constexpr std::string_view kSpaceMark = "\u2581";

inline TokenType type_of(const VocabData& vocab, std::size_t id) {
  return vocab.types.empty() ? TokenType::kNormal : vocab.types[id];
}

inline bool is_control_type(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

// Strings and flags by id; `bytes_of(text, type)` gives what a token adds to a text.
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

AddedToken added_token(const VocabData& vocab, std::size_t id, std::string content);
// BOS and EOS as the file says, and what else the file names.
void add_framing(const VocabData& vocab, bool bos_by_default, bool eos_by_default, PipelineParts& parts);
Status fill_pairs(const VocabData& vocab, const TokenSet& set, PairTable& pairs);
// Of the tokens of type 6.
Result<ByteFallback> byte_tokens(const VocabData& vocab);
// Text that a vocabulary file writes with U+2581 for spaces.
std::string spaced_bytes(const std::string& text, TokenType type);

// By tokenizer.ggml.model. The vocabulary has been checked.
Result<std::unique_ptr<Tokenizer>> byte_level_tokenizer(const VocabData& vocab);  // gpt2
Result<std::unique_ptr<Tokenizer>> whole_text_tokenizer(const VocabData& vocab);  // gemma4
Result<std::unique_ptr<Tokenizer>> sentencepiece_tokenizer(VocabData vocab);      // llama
Result<std::unique_ptr<Tokenizer>> unigram_tokenizer(VocabData vocab);            // t5
Result<std::unique_ptr<Tokenizer>> word_piece_tokenizer(VocabData vocab);         // bert

}  // namespace weir::text
