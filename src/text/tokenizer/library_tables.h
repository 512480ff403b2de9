// What the tokenizers library takes for accents, punctuation ... (tools/gen_library_tables.py): its components have
// tables of several Unicode versions, and ids must equal its own.
#pragma once

#include <cstddef>

#include "text/tokenizer/unicode_tables.h"

namespace weir::text::library_tables {

using unicode_tables::CodeRange;

extern const std::size_t kNumAccents;
extern const CodeRange kAccents[];  // dropped by StripAccents
extern const std::size_t kNumBertAccents;
extern const CodeRange kBertAccents[];  // dropped by BertNormalizer behind NFD
extern const std::size_t kNumBertControls;
extern const CodeRange kBertControls[];  // dropped by BertNormalizer's cleaning
extern const std::size_t kNumPunctuation;
extern const CodeRange kPunctuation[];
extern const std::size_t kNumNumbers;
extern const CodeRange kNumbers[];
// Characters that these normalisation forms leave as they are, though newer tables map them.
extern const std::size_t kNumUnknownToNfd;
extern const CodeRange kUnknownToNfd[];
extern const std::size_t kNumUnknownToNfkd;
extern const CodeRange kUnknownToNfkd[];
extern const std::size_t kNumUnknownToNfkc;
extern const CodeRange kUnknownToNfkc[];

struct Lowercase {
  char32_t from, to;
};
extern const std::size_t kNumLowercase;
extern const Lowercase kLowercase[];  // by `from`; U+0130, which becomes two characters, is not among them

}  // namespace weir::text::library_tables
