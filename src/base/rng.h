// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): the value is a function of (key, counter), so a
// token's noise depends on its seed and position alone and not on what was sampled before, beside or between.
#pragma once

#include <array>
#include <cstdint>

namespace weir {

inline std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                           std::uint64_t counter_high = 0) {
  std::array<std::uint32_t, 4> c = {
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// Uniform in [0, 1), 53 bits.
inline double uniform(std::uint64_t seed, std::uint64_t position) {
  const auto r = philox(seed, position);
  return static_cast<double>(((std::uint64_t{r[0]} << 32) | r[1]) >> 11) * 0x1p-53;
}

}  // namespace weir
