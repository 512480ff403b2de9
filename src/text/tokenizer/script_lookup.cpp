#include "text/tokenizer/script_tables.h"

namespace weir::text::unicode_tables {
int script_of(char32_t code) {
  const ScriptRange* range = find_range(kScriptRanges, kNumScriptRanges, code);
  return range != nullptr ? range->script : -1;
}

int script_of_name(std::string_view plain_name) {
  for (std::size_t i = 0; i < kNumScriptNames; ++i) {
    if (kScriptNames[i] == plain_name) return static_cast<int>(i);
  }
  for (std::size_t i = 0; i < kNumScriptAliases; ++i) {
    if (kScriptAliases[i].name == plain_name) return kScriptAliases[i].script;
  }
  return -1;
}

std::uint8_t properties_of(char32_t code) {
  const PropertyRange* range = find_range(kPropertyRanges, kNumPropertyRanges, code);
  return range != nullptr ? range->properties : std::uint8_t{0};
}

bool has_unsplit_script(char32_t code) {
  return find_range(kUnsplitScripts, kNumUnsplitScripts, code) != nullptr;
}

}  // namespace weir::text::unicode_tables
