// Bounds on what a vocabulary may hold. All are well above anything published; they keep a hostile file from costing
// memory or time.
#pragma once

#include <cstddef>

namespace weir::text {

inline constexpr std::size_t kMaxTokens = std::size_t{1} << 22;  // the largest vocabularies have some 2^18
inline constexpr std::size_t kMaxMerges = std::size_t{1} << 23;
// Bounds the work per position of a search for added tokens and of merges. The longest in use has some 500 bytes.
inline constexpr std::size_t kMaxTokenBytes = 4096;

}  // namespace weir::text
