// Scripts and a few derived properties of characters (tools/gen_script_tables.py). For regular expressions and the
// UnicodeScripts pre-tokenizer; the general categories are in unicode.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/tokenizer/unicode_tables.h"

namespace weir::text::unicode_tables {

enum Property : std::uint8_t { kAlphabetic = 1, kUppercase = 2, kLowercase = 4 };

struct ScriptRange {
  char32_t first, last;
  std::uint8_t script;  // index of kScriptNames
};
extern const std::size_t kNumScriptRanges;
extern const ScriptRange kScriptRanges[];  // by first; what no range holds has no script

struct PropertyRange {
  char32_t first, last;
  std::uint8_t properties;
};
extern const std::size_t kNumPropertyRanges;
extern const PropertyRange kPropertyRanges[];  // by first

extern const std::size_t kNumScriptNames;
extern const std::string_view kScriptNames[];  // lower case, without '_'
// Abbreviations: {"latn", index}.
struct ScriptAlias {
  std::string_view name;
  std::uint8_t script;
};
extern const std::size_t kNumScriptAliases;
extern const ScriptAlias kScriptAliases[];

// Characters that the UnicodeScripts pre-tokenizer, which has older tables, gives no script.
extern const std::size_t kNumUnsplitScripts;
extern const CodeRange kUnsplitScripts[];

int script_of(char32_t code);                     // -1: none
int script_of_name(std::string_view plain_name);  // -1: no such script
std::uint8_t properties_of(char32_t code);
bool has_unsplit_script(char32_t code);

}  // namespace weir::text::unicode_tables
