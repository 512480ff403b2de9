#include "model/rope_tables.h"

#include <gtest/gtest.h>

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
      fill_rope_row(frequencies, kPositions[p], cos.data(), sin.data());
      for (std::size_t i = 0; i < cos.size(); ++i) {
        EXPECT_NEAR(cos[i], c.cos[p][i], 1.5e-7) << c.name << ' ' << kPositions[p] << ' ' << i;
        EXPECT_NEAR(sin[i], c.sin[p][i], 1.5e-7) << c.name << ' ' << kPositions[p] << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace weir::model
