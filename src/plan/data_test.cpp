#include "plan/data.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace weir::plan {
namespace {

TEST(Data, IsTheFileByteForByte) {
  std::ifstream file(WEIR_SOURCE_DIR "/src/plan/data/hardware.csv", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  ASSERT_GT(bytes.str().size(), 1000u);
  EXPECT_EQ(data_file("hardware.csv"), bytes.str());
}

}  // namespace
}  // namespace weir::plan
