#include "base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

namespace weir {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Known answers that the authors of Random123 publish for philox4x32-10.
TEST(Philox, GivesThePublishedValues) {
  EXPECT_EQ(philox(0, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryInputBitChangesAboutHalfTheOutput) {
  const auto distance = [](const Block& a, const Block& b) {
    int bits = 0;
    for (std::size_t i = 0; i < 4; ++i) bits += std::popcount(a[i] ^ b[i]);
    return bits;
  };
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NEAR(distance(philox(1, 2, 3), philox(1 ^ (1ull << bit), 2, 3)), 64, 30);
    EXPECT_NEAR(distance(philox(1, 2, 3), philox(1, 2 ^ (1ull << bit), 3)), 64, 30);
    EXPECT_NEAR(distance(philox(1, 2, 3), philox(1, 2, 3 ^ (1ull << bit))), 64, 30);
  }
}

TEST(Uniform, IsInRangeAndEven) {
  constexpr int kCount = 100000;
  double sum = 0, squares = 0;
  std::array<int, 20> bins{};
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double x = uniform(1234, i);
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
    ++bins[static_cast<std::size_t>(x * 20)];
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.005);
  for (const int count : bins) EXPECT_NEAR(count, kCount / 20, 350);
}

TEST(Uniform, IsAFunctionOfSeedAndPosition) {
  EXPECT_EQ(uniform(7, 9), uniform(7, 9));
  EXPECT_NE(uniform(7, 9), uniform(7, 10));
  EXPECT_NE(uniform(7, 9), uniform(8, 9));
}

}  // namespace
}  // namespace weir
