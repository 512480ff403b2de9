// Charsmap: SentencePiece's precompiled normalisation: a double-array trie of character sequences and what each
// becomes. Format: 4 bytes (little-endian) of trie size, the trie's 32-bit units, then strings that end with a zero
// byte (sentencepiece's normalizer.cc, darts-clone). Every index is checked. Immutable; any number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::text {

// How a text is cut before the map is asked.
enum class CharsmapUnits {
  kLongestPrefix,  // as sentencepiece does: the longest entry at each place, else one character
  kGraphemes,      // as the tokenizers library does: short grapheme clusters by their first entry, else each character
};

class Charsmap {
 public:
  static Result<Charsmap> parse(std::string_view blob);

  // The mapped text, or nullopt if nothing changes or if it would grow beyond `max_bytes`.
  std::optional<std::string> apply(std::string_view text, CharsmapUnits units, std::size_t max_bytes) const;

 private:
  struct Hit {
    std::size_t size = 0;  // bytes of the entry; 0: none
    std::uint32_t value = 0;
  };
  Hit find(std::string_view text, bool longest) const;
  std::string_view replacement(std::uint32_t value) const;
  void map_grapheme(std::string_view grapheme, std::string& out) const;

  std::vector<std::uint32_t> units_;
  std::string strings_;
};

}  // namespace weir::text
