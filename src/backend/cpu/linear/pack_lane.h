// How a block of weights gets into its output's lane of a panel (layout: kernels.h). For packed_weight.cpp and
// foreign_blocks.cpp.
#pragma once

#include <cstdint>
#include <cstring>

namespace weir::backend::cpu::linear {

// One output's lane of a panel.
struct Lane {
  std::uint8_t* scales;
  std::uint8_t* codes;
  int r;
};

inline std::uint32_t load32(const void* from) {
  std::uint32_t value;
  std::memcpy(&value, from, 4);
  return value;
}

inline void store32(std::uint8_t* to, std::uint32_t value) {
  std::memcpy(to, &value, 4);
}

inline void store16(std::uint8_t* to, std::uint16_t value) {
  std::memcpy(to, &value, 2);
}

// 32 codes of `bits` bits; `to` is the block's codes at the output's lane.
inline void place_codes(int bits, const std::uint8_t* codes, std::uint8_t* to) {
  if (bits == 8) {
    for (int q = 0; q < 8; ++q) store32(to + 64 * q, load32(codes + 4 * q));
    return;
  }
  if (bits == 4) {
    for (int i = 0; i < 4; ++i) store32(to + 64 * i, load32(codes + 4 * i) | load32(codes + 16 + 4 * i) << 4);
    return;
  }
  for (int h = 0; h < 2; ++h) {  // 2 or 3
    std::uint32_t fields = 0;
    for (int f = 0; f < 4; ++f) fields |= (load32(codes + 16 * h + 4 * f) & 0x03030303u) << (2 * f);
    store32(to + 64 * h, fields);
  }
  if (bits == 2) return;
  std::uint32_t third = 0;
  for (int q = 0; q < 8; ++q) third |= (load32(codes + 4 * q) >> 2 & 0x01010101u) << q;
  store32(to + 128, third);
}

}  // namespace weir::backend::cpu::linear
