// Pipeline: the one Tokenizer there is: added tokens -> normalizer -> added tokens -> pre-tokenizer -> word model ->
// framing tokens. The readers (gguf_vocab.cpp, tokenizer_json.cpp) fill in the parts.
//
// Invariants: ids in the parts are in [0, texts.size()); added tokens and the word model's index hold no empty strings;
// the word model never gives a control token.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/token_table.h"

namespace weir::text {

// What one id is, beyond its strings.
enum TokenFlag : std::uint8_t {
  kFlagPresent = 1,  // the vocabulary has this id
  kFlagControl = 2,  // never comes out of user text
  kFlagMatched = 4,  // found in the text itself (control or user-defined)
};

struct TokenSet {
  TokenTable texts;                 // the vocabulary's spelling
  TokenTable bytes;                 // what the token adds to a text
  TokenTable first_bytes;           // the same at the start of a text; empty: no difference
  std::vector<std::uint8_t> tails;  // by id, may be empty: bytes at the end of `bytes` that another token must follow
  TokenTable forms;                 // how words spell it, where that is neither of the two; else empty
  std::vector<std::uint8_t> flags;  // TokenFlag, by id
  TextIndex ids;                    // of texts
};

struct SpecialIds {
  std::optional<TokenId> bos, eos, eot, eom;
};

struct PipelineParts {
  std::unique_ptr<TokenSet> tokens;  // the word model points into it
  AddedTokens raw_added;             // matched in the text as it came
  AddedTokens normalized_added;      // matched behind the normalizer
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<WordModel> model;
  std::vector<TokenId> before, after;  // add_special
  bool strip_first_space = false;      // decoding takes one space off the start of a text
  SpecialIds special;
};

std::unique_ptr<Tokenizer> make_pipeline(PipelineParts parts);

}  // namespace weir::text
