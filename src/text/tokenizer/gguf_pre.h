// What a GGUF file means by tokenizer.ggml.pre, the name of a byte-level pre-tokenizer: the rules that the family's
// tokenizer.json states.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/scanners.h"

namespace weir::text {

struct PreRules {
  std::vector<Scanner> scanners;  // a chain
  bool nfc = false;
  bool ignore_merges = false;  // a word that is a token is that token
  bool add_bos = false;        // where the file does not say
};

// kUnsupported for names weir does not know. An empty name and "default" mean GPT-2's rules.
Result<PreRules> rules_for_pre(std::string_view name);

}  // namespace weir::text
