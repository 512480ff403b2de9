#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace weir {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return fail(ErrorCode::kInvalidArgument, "{} is odd", x);
  return x / 2;
}

Result<int> quarter(int x) {
  WEIR_TRY(const int once, half(x));
  WEIR_TRY(const int twice, half(once));
  return twice;
}

Status check_even(int x) {
  WEIR_RETURN_IF_ERROR(half(x));
  return {};
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(half(8).value(), 4);
  ASSERT_FALSE(half(7));
  EXPECT_EQ(half(7).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(half(7).error().message, "7 is odd");
  EXPECT_EQ(half(7).error().param, "");
}

TEST(Result, TryPassesErrorsOn) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(7).error().message, "7 is odd");
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
}

TEST(Result, ReturnIfErrorPassesErrorsOn) {
  EXPECT_TRUE(check_even(4));
  EXPECT_EQ(check_even(5).error().message, "5 is odd");
}

TEST(Result, FailAtNamesTheField) {
  const Result<int> result = fail_at("temperature", ErrorCode::kInvalidArgument, "{} is below {}", -1, 0);
  EXPECT_EQ(result.error().param, "temperature");
  EXPECT_EQ(result.error().message, "-1 is below 0");
}

TEST(Result, MovesWhatCannotBeCopied) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  const auto use = [&]() -> Result<int> {
    WEIR_TRY(const std::unique_ptr<int> owned, make());
    return *owned;
  };
  EXPECT_EQ(use().value(), 5);
}

}  // namespace
}  // namespace weir
