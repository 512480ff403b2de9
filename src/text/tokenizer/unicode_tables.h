// The generated Unicode data (tools/gen_unicode_tables.py). Use unicode.h and normal_form.h, which know how to read it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weir::text::unicode_tables {

inline constexpr unsigned kBlockShift = 7;  // code points per block: 128

// Bits 0-4: category (order of unicode.h), bit 5: White_Space, bit 6: normalisation to NFC may change it or its
// neighbours.
extern const std::uint16_t kCategoryIndex[0x110000 >> kBlockShift];
extern const std::uint8_t kCategoryBlocks[];
// Canonical_Combining_Class.
extern const std::uint16_t kCombiningIndex[0x110000 >> kBlockShift];
extern const std::uint8_t kCombiningBlocks[];

struct Decomposition {
  char32_t composed, first, second;  // one step; second is 0 for a singleton
};
extern const std::size_t kNumDecompositions;
extern const Decomposition kDecompositions[];  // by composed

struct Composition {
  char32_t first, second, composed;
};
extern const std::size_t kNumCompositions;
extern const Composition kCompositions[];  // by (first, second)

struct CodeRange {
  char32_t first, last;
};

// The range that holds the code point, or null. `ranges` are disjoint and in order.
template <class Range>
const Range* find_range(const Range* ranges, std::size_t count, char32_t code) {
  const Range* above =
      std::upper_bound(ranges, ranges + count, code, [](char32_t c, const Range& range) { return c < range.first; });
  return above != ranges && code <= above[-1].last ? above - 1 : nullptr;
}

}  // namespace weir::text::unicode_tables
