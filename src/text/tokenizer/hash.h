// Hashing for the tokenizer's tables. Seeded per process: a hostile file or prompt cannot prepare collisions. Only
// look-ups use it, so no result depends on the seed.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir::text {

extern const std::uint64_t kHashSeed;

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_pair(std::uint32_t a, std::uint32_t b) {
  return mix((std::uint64_t{a} << 32 | b) ^ kHashSeed, 0x9E3779B97F4A7C15u);
}

inline std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = kHashSeed ^ bytes.size();
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    hash = mix(hash ^ word, 0x9E3779B97F4A7C15u);
  }
  std::uint64_t word = 0;
  if (left >= 4) {
    std::uint32_t low, high;
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + left - 4, 4);
    word = std::uint64_t{high} << 32 | low;
  } else if (left > 0) {
    word = static_cast<unsigned char>(at[0]) |
           static_cast<std::uint64_t>(static_cast<unsigned char>(at[left / 2])) << 8 |
           static_cast<std::uint64_t>(static_cast<unsigned char>(at[left - 1])) << 16;
  }
  return mix(hash ^ word, 0xD1B54A32D192ED03u);
}

}  // namespace weir::text
