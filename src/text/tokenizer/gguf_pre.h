// What a GGUF file means by tokenizer.ggml.pre, the name of a pre-tokenizer: the rules that the family's tokenizer.json
// states. Names and patterns are facts of the published files and of llama.cpp's table (src/llama-vocab.cpp).
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace weir::text {

// One split; exactly one of them is set.
struct PreSplit {
  enum class Part { kNone, kPunctuationRuns, kDigitRuns, kByteChars };
  Scanner scanner = nullptr;
  const char* pattern = nullptr;  // matches and what is between them become pieces
  Part part = Part::kNone;
};

struct PreRules {
  std::vector<PreSplit> splits;  // a chain
  bool nfc = false;
  bool ignore_merges = false;  // a word that is a token is that token
  bool add_bos = false;        // where the file does not say
  bool whole_text = false;     // no bytes spelt as characters: U+2581 for spaces, merges over the whole text
};

// kUnsupported for names weir does not know. An empty name and "default" mean GPT-2's rules.
Result<PreRules> rules_for_pre(std::string_view name);

// A name for each set of rules, the common ones first.
std::vector<std::string_view> pre_names();

Result<std::vector<StagePtr>> stages_for(const PreRules& rules);
// Whether the stages end with bytes spelt as characters.
bool gives_byte_chars(const PreRules& rules);

}  // namespace weir::text
