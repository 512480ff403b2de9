// Conversions of 16-bit floats, exact to IEEE round-to-nearest-even. For code outside kernels (kernels use the CPU's
// instructions).
#pragma once

#include <bit>
#include <cstdint>

namespace weir::tensor {

inline float f32_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t bf16_from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40);  // keep a NaN a NaN
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

inline float f32_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

// FP8 without infinities (OFP8 E4M3): the highest magnitude is NaN.
inline float f32_from_e4m3(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80) << 24, magnitude = bits & 0x7fu;
  const float subnormal = static_cast<float>(magnitude) * 0x1p-9f;
  const std::uint32_t value = magnitude < 8       ? std::bit_cast<std::uint32_t>(subnormal)
                              : magnitude == 0x7f ? 0x7fc00000u
                                                  : (magnitude << 20) + (120u << 23);
  return std::bit_cast<float>(sign | value);
}

inline std::uint16_t f16_from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 65536 or more: infinity
  if (magnitude < 0x38800000u) {                        // subnormal or zero: let the FPU round in units of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // 0.5f has an ulp of 2^-24
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace weir::tensor
