#include "plan/silicon/collective_path.h"

#include <gtest/gtest.h>

namespace weir::plan {
namespace {

constexpr double kKiB = 1024, kMiB = 1024 * kKiB;

TEST(CollectivePath, MoreThanTwoDevicesWithoutLinksGoAroundTheLibrarysRing) {
  for (const double bytes : {256.0, kMiB, 1024 * kMiB}) {
    EXPECT_EQ(sum_path(8.9, true, 4, bytes), CollectivePath::kRing);
    EXPECT_EQ(sum_path(8.9, true, 8, bytes), CollectivePath::kRing);
  }
  EXPECT_EQ(sum_path(8.9, true, 2, kMiB), CollectivePath::kOnce);
  EXPECT_EQ(sum_path(8.9, true, 2, 8 * kMiB), CollectivePath::kRing);
}

TEST(CollectivePath, SwitchesWhereTheSourceSays) {
  EXPECT_EQ(sum_path(8.0, false, 8, 256 * kKiB - 1), CollectivePath::kOnce);
  EXPECT_EQ(sum_path(8.0, false, 8, 256 * kKiB), CollectivePath::kTwice);
  EXPECT_EQ(sum_path(8.0, false, 4, 512 * kKiB - 1), CollectivePath::kOnce);
  EXPECT_EQ(sum_path(8.0, false, 4, 512 * kKiB), CollectivePath::kTwice);
  EXPECT_EQ(sum_path(8.0, false, 8, 8 * kMiB), CollectivePath::kRing);
  EXPECT_EQ(sum_path(9.0, false, 8, 256 * kKiB), CollectivePath::kSymmetric);
  EXPECT_EQ(sum_path(9.0, false, 8, 64 * kMiB), CollectivePath::kRing);
  EXPECT_EQ(sum_path(9.0, false, 4, 4 * kMiB), CollectivePath::kTwice);
  EXPECT_EQ(sum_path(9.0, false, 4, 16 * kMiB), CollectivePath::kSymmetric);
  EXPECT_EQ(sum_path(10.0, false, 2, 2 * kMiB), CollectivePath::kSymmetric);
  EXPECT_EQ(sum_path(10.0, false, 8, kMiB - 1), CollectivePath::kTwice);
}

}  // namespace
}  // namespace weir::plan
