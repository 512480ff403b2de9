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
  std::string model;                // "gpt2", "llama", "t5", "bert", "gemma4"
  std::string pre;                  // pre-tokenizer name for gpt2 models
  std::vector<std::string> tokens;  // by id
  std::vector<float> scores;        // by id; empty for BPE by merges
  std::vector<TokenType> types;     // by id; may be empty: all normal
  std::vector<std::string> merges;  // "left right", best first
  std::string charsmap;             // precompiled normalisation of SentencePiece models; empty: none
  std::optional<TokenId> bos, eos, eot, eom, unknown, padding, cls, separator;
  std::optional<bool> add_bos, add_eos, add_separator, add_space_prefix, remove_extra_whitespaces;
  std::optional<bool> lowercase, strip_accents;  // of bert models
};

}  // namespace weir::text
