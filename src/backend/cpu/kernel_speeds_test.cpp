#include "backend/cpu/kernel_speeds.h"

#include <gtest/gtest.h>

namespace weir::backend::cpu {
namespace {

TEST(KernelSpeeds, NameTheBoundOfEveryFigureAskedFor) {
  KernelSpeedOptions options;
  options.threads = 1;
  options.ops = {"gated_linear", "attention_decode_512", "rms_norm"};
  options.types = {DType::kF32, DType::kQ4_K};
  options.rows = {1, 3};
  std::vector<std::string> begun;
  const auto speeds = measure_kernels(options, [&](std::string_view op, DType type) {
    begun.push_back(fmt::format("{} {}", op, tensor::info(type).name));
  });
  ASSERT_TRUE(speeds.has_value()) << speeds.error().message;
  EXPECT_EQ(begun, (std::vector<std::string>{"gated_linear F32", "gated_linear Q4_K", "attention_decode_512 F32",
                                             "rms_norm F32"}));
  ASSERT_EQ(speeds->kernels.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    const KernelSpeed& k = speeds->kernels[i];
    EXPECT_EQ(k.rows, i % 2 == 0 ? 1 : 3);
    EXPECT_GT(k.gb_s(), 0) << k.op;
    EXPECT_GT(k.gops(), 0) << k.op;
    EXPECT_GT(k.share, 0) << k.op;
    const bool known = k.bound == "read" || k.bound == (k.type == DType::kQ4_K ? "int8" : "f32");
    EXPECT_TRUE(known) << k.bound;
  }
}

TEST(KernelSpeeds, RefuseAnOperationThatIsNone) {
  KernelSpeedOptions options;
  for (const char* name : {"lin", "", "linear_", "attention_"}) {
    options.ops = {"linear", name};
    const auto speeds = measure_kernels(options, [](std::string_view, DType) {});
    ASSERT_FALSE(speeds.has_value()) << name;
    EXPECT_NE(speeds.error().message.find("rms_norm"), std::string::npos) << speeds.error().message;
  }
}

}  // namespace
}  // namespace weir::backend::cpu
