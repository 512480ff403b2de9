// VocabData: a vocabulary as a GGUF file states it (tokenizer.ggml.*), before it becomes a Tokenizer. Plain data,
// unchecked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace weir::text {

// GGUF's numbers.
enum class TokenType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct VocabData {
  std::string architecture;         // general.architecture; a few families have rules of their own
  std::string model;                // "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), ...
  std::string pre;                  // pre-tokenizer name for gpt2 models
  std::vector<std::string> tokens;  // by id
  std::vector<float> scores;        // by id; empty for gpt2
  std::vector<TokenType> types;     // by id; may be empty: all normal
  std::vector<std::string> merges;  // "left right", best first
  std::optional<TokenId> bos, eos, eot, eom, unknown, padding;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
};

}  // namespace weir::text
