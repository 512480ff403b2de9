#include "model/rope_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace weir::model {
namespace {

using load::RopeSpec;

struct Case {
  std::string name;
  RopeSpec spec;
  double magnitude;
  std::vector<double> frequencies;
  std::vector<std::vector<double>> cos, sin;  // at kPositions
};

constexpr std::int64_t kPositions[] = {0, 1, 7, 1000, 131071};

const std::vector<Case>& cases() {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
  static const std::vector<Case> all = {
#include "model/testdata/rope_values.inc"
  };
#pragma GCC diagnostic pop
  return all;
}

TEST(RopeTables, FrequenciesFollowThePapers) {
  for (const Case& c : cases()) {
    const RopeFrequencies got = rope_frequencies(c.spec);
    EXPECT_DOUBLE_EQ(got.magnitude, c.magnitude) << c.name;
    ASSERT_EQ(got.radians_per_token.size(), c.frequencies.size()) << c.name;
    for (std::size_t i = 0; i < c.frequencies.size(); ++i) {
      EXPECT_NEAR(got.radians_per_token[i], c.frequencies[i], 1e-14 * c.frequencies[i]) << c.name << ' ' << i;
    }
  }
}

TEST(RopeTables, RowsAreCosAndSinOfTheAngles) {
  for (const Case& c : cases()) {
    const RopeFrequencies frequencies = rope_frequencies(c.spec);
    std::vector<float> cos(c.frequencies.size()), sin(cos.size());
    for (std::size_t p = 0; p < std::size(kPositions); ++p) {
      fill_rope_row(frequencies, kPositions[p], kPositions[p] + 1, cos.data(), sin.data());
      for (std::size_t i = 0; i < cos.size(); ++i) {
        EXPECT_NEAR(cos[i], c.cos[p][i], 1.5e-7) << c.name << ' ' << kPositions[p] << ' ' << i;
        EXPECT_NEAR(sin[i], c.sin[p][i], 1.5e-7) << c.name << ' ' << kPositions[p] << ' ' << i;
      }
    }
  }
}

// LongRoPE: from one token more than the original context on, all positions turn by the other divisors.
TEST(RopeTables, LongSequencesTurnDifferently) {
  RopeSpec spec;
  spec.dims = 4;
  spec.scaling = RopeSpec::Scaling::kLong;
  spec.original_context = 128;
  spec.attention_factor = 1.25;
  spec.frequency_divisors = {1.0f, 2.0f};
  spec.long_divisors = {4.0f, 8.0f};
  const RopeFrequencies frequencies = rope_frequencies(spec);
  float cos[2], sin[2];
  for (const int known : {128, 129}) {
    fill_rope_row(frequencies, 3, known, cos, sin);
    for (int i = 0; i < 2; ++i) {
      const double divisor = known > 128 ? spec.long_divisors[static_cast<std::size_t>(i)]
                                         : spec.frequency_divisors[static_cast<std::size_t>(i)];
      const double angle = 3 * std::pow(10000.0, -i / 2.0) / divisor;
      EXPECT_NEAR(cos[i], 1.25 * std::cos(angle), 1e-6) << known;
      EXPECT_NEAR(sin[i], 1.25 * std::sin(angle), 1e-6) << known;
    }
  }
}

TEST(RopeTables, QueriesGrowEveryOriginalContext) {
  RopeSpec spec;
  spec.dims = 2;
  spec.original_context = 32;
  spec.growth = 0.4;
  const RopeFrequencies frequencies = rope_frequencies(spec);
  for (const std::int64_t position : {0, 1, 31, 32, 63, 64, 1000}) {
    float cos = 0, sin = 0;
    fill_rope_row(frequencies, position, position + 1, &cos, &sin);
    const double growth = 1 + 0.4 * std::log(1 + std::floor(static_cast<double>(position) / 32));
    EXPECT_NEAR(cos, growth * std::cos(static_cast<double>(position)), 1e-6) << position;
    EXPECT_NEAR(sin, growth * std::sin(static_cast<double>(position)), 1e-6) << position;
  }
}

}  // namespace
}  // namespace weir::model
