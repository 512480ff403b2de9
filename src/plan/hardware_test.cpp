#include "plan/hardware.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::plan {
namespace {

TEST(Hardware, ManySpellingsNameOneDevice) {
  for (const char* name : {"h100", "H100-SXM", "h100_sxm", "NVIDIA H100", "H100-SXM5-80GB", "H100 80GB"}) {
    const auto found = find_hardware(name);
    ASSERT_TRUE(found.has_value()) << name << ": " << found.error().message;
    EXPECT_EQ(found->name, "H100-SXM") << name;
    EXPECT_EQ(found->bandwidth_gbs, 3350);
  }
  EXPECT_EQ(find_hardware("b300_sxm")->name, "B300-SXM");
  EXPECT_EQ(find_hardware("gb200")->domain, 72);
  EXPECT_EQ(find_hardware("A100-40GB")->name, "A100-SXM-40");
}

TEST(Hardware, EveryRowIsCompleteAndFoundByItsName) {
  std::set<std::string> names;
  for (const Hardware& one : known_hardware()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    const auto found = find_hardware(one.name);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    EXPECT_EQ(found->name, one.name);
    EXPECT_FALSE(one.source.empty());
    // Each type in its own arithmetic, or in BF16's where there is none; never in that of another.
    EXPECT_EQ(one.peak_tflops(16), one.bf16_tflops) << one.name;
    EXPECT_EQ(one.peak_tflops(8), one.fp8_tflops > 0 ? one.fp8_tflops : one.bf16_tflops) << one.name;
    EXPECT_EQ(one.peak_tflops(4), one.fp4_tflops > 0 ? one.fp4_tflops : one.bf16_tflops) << one.name;
    EXPECT_EQ(one.peak_tflops(8, true), std::max(one.int8_tops, one.bf16_tflops)) << one.name;
  }
  EXPECT_GE(names.size(), 25u);
}

TEST(Hardware, FieldsAreGivenByHand) {
  const auto changed = find_hardware("H100,mem_bw_gbs=3000,price_per_hour=2.5");
  ASSERT_TRUE(changed.has_value()) << changed.error().message;
  EXPECT_EQ(changed->bandwidth_gbs, 3000);
  EXPECT_EQ(changed->price_per_hour, 2.5);
  EXPECT_EQ(changed->bf16_tflops, 989);
  const auto mine = find_hardware("mine,bf16_dense_tflops=100,mem_gb=16,mem_bw_gbs=500,domain=4");
  ASSERT_TRUE(mine.has_value()) << mine.error().message;
  EXPECT_EQ(mine->memory_bytes, 16e9);
  EXPECT_EQ(mine->domain, 4);
  EXPECT_EQ(find_hardware("\xff\x1b[2J,bf16_dense_tflops=100,mem_gb=16,mem_bw_gbs=500")->name, "\\xff\\x1b[2J");
}

TEST(Hardware, WhatIsWrongIsNamedWithWhatIsExpected) {
  const auto message = [](const std::string& text) {
    const auto found = find_hardware(text);
    return found ? "found " + found->name : found.error().message;
  };
  EXPECT_NE(message("H9000").find("H100-SXM"), std::string::npos);
  EXPECT_NE(message("H9000").find("mem_bw_gbs"), std::string::npos);
  EXPECT_NE(message("H100,speed=3").find("no field \"speed\""), std::string::npos);
  EXPECT_NE(message("H100,mem_gb=lots").find("\"lots\""), std::string::npos);
  for (const std::string value : {"-1", "0", "1e-300", "1e30", "inf", "nan", ""}) {
    const std::string said = message("H100,mem_gb=" + value);
    EXPECT_NE(said.find("mem_gb is \"" + value + "\"; a number from 0.01 to 1e+06"), std::string::npos) << said;
  }
  EXPECT_NE(message("H100,mem_bw_gbs=0").find("0.1 to 1e+06"), std::string::npos);
  EXPECT_NE(message("H100,link_gbs_per_dir=1e9").find("0 to 1e+06"), std::string::npos);
  EXPECT_NE(message("H100,domain=1.5").find("a whole number from 1 to 1e+06"), std::string::npos);
  EXPECT_NE(message("mine,mem_gb=1").find("bf16_dense_tflops is needed"), std::string::npos);
  EXPECT_NE(message("H100,,").find("field=value"), std::string::npos);
  EXPECT_NE(message("").find("not known"), std::string::npos);
  EXPECT_NE(message(std::string(5000, 'a')).find("at most"), std::string::npos);
  EXPECT_NE(message("B20").find("not known"), std::string::npos);
  EXPECT_NE(message("H1000").find("not known"), std::string::npos);
}

}  // namespace
}  // namespace weir::plan
