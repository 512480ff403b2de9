#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"

namespace weir::tensor {
namespace {

// The value by the definition of the format, in double precision.
double f16_by_definition(std::uint32_t bits) {
  const double sign = bits & 0x8000u ? -1 : 1;
  const int exponent = static_cast<int>((bits >> 10) & 31), fraction = static_cast<int>(bits & 1023);
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

TEST(Half, WidensEveryF16Exactly) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = f32_from_f16(static_cast<std::uint16_t>(bits));
    const double want = f16_by_definition(bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    ASSERT_EQ(value, want) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000u) != 0) << bits;
    ASSERT_EQ(f16_from_f32(value), bits);
  }
}

TEST(Half, NarrowsToTheNearestF16) {
  // The numbers halfway between neighbours, and one float to either side, for every pair of neighbours.
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = f16_by_definition(bits), high = bits == 0x7bff ? 65536.0 : f16_by_definition(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2);
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const auto signed_of = [&](float x) { return sign ? -x : x; };
      ASSERT_EQ(f16_from_f32(signed_of(middle)), sign | even) << bits;
      ASSERT_EQ(f16_from_f32(signed_of(std::nextafter(middle, 0.0f))), sign | bits) << bits;
      ASSERT_EQ(f16_from_f32(signed_of(std::nextafter(middle, 1e9f))), sign | (bits + 1)) << bits;
    }
  }
  EXPECT_EQ(f16_from_f32(1e30f), 0x7c00);
  EXPECT_EQ(f16_from_f32(-HUGE_VALF), 0xfc00);
  EXPECT_EQ(f16_from_f32(1e-30f), 0);
  EXPECT_EQ(f16_from_f32(-1e-45f), 0x8000);
  EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(std::nanf("")))));
}

TEST(Half, BFloat16IsTheUpperHalfRoundedToNearestEven) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = f32_from_bf16(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), bits << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(value)))) << bits;
      continue;
    }
    ASSERT_EQ(bf16_from_f32(value), bits);
    if (std::isinf(value)) continue;
    const auto beside = [&](std::uint32_t low) { return bf16_from_f32(std::bit_cast<float>((bits << 16) | low)); };
    ASSERT_EQ(beside(0x7fff), bits);
    ASSERT_EQ(beside(0x8000), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(beside(0x8001), bits + 1);
    ASSERT_EQ(beside(0xffff), bits + 1);
  }
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Half, WidensEveryE4M3Exactly) {
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const float value = f32_from_e4m3(static_cast<std::uint8_t>(bits));
    const int exponent = static_cast<int>(bits >> 3 & 15), fraction = static_cast<int>(bits & 7);
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    EXPECT_EQ(value, bits & 0x80 ? -magnitude : magnitude) << bits;
    EXPECT_EQ(std::signbit(value), (bits & 0x80) != 0) << bits;
  }
}

#ifdef __FLT16_MANT_DIG__

TEST(Half, AgreesWithTheCompilersType) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(std::bit_cast<_Float16>(narrow));
    if (std::isnan(value)) continue;
    ASSERT_EQ(f32_from_f16(narrow), value) << bits;
  }
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(philox(5, i)[0]);
    if (std::isnan(value)) continue;
    ASSERT_EQ(f16_from_f32(value), std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) << value;
  }
}

#endif

}  // namespace
}  // namespace weir::tensor
