// Detokenizer: ids of one reply, one by one -> text that never holds half a character.
//
// push() returns the bytes that have become certain: an incomplete UTF-8 sequence is kept back until the next token
// completes it or proves it invalid (then U+FFFD, as Unicode's "maximal subpart" practice asks). The concatenation of
// all push() results and finish() equals Tokenizer::decode of the same ids. Cost: O(bytes). Not thread-safe; one per
// choice.
#pragma once

#include <span>
#include <string>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace weir::text {

class Detokenizer {
 public:
  // `prompt`: the ids before the reply. Only their end matters: whether the reply starts a text (SentencePiece's first
  // space), and a character that the prompt left unfinished, which the first tokens of the reply may complete (it is
  // then shown whole).
  Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt, bool skip_special);

  std::string push(TokenId id);
  // What is still kept back, as U+FFFD. Call once, at the end.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  bool at_start_;
  std::string tail_;              // bytes of the last token that stand only if another one follows
  std::string pending_;           // an incomplete UTF-8 sequence, at most 3 bytes
  std::size_t prompt_bytes_ = 0;  // how many of them are the prompt's: not shown unless the reply completes them
};

// Bytes -> valid UTF-8: every maximal ill-formed part becomes one U+FFFD.
std::string sanitise_utf8(std::string_view bytes);

}  // namespace weir::text
