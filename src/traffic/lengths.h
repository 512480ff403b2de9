// How many tokens prompts and replies have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "traffic/random.h"

namespace weir::traffic {

inline constexpr std::int64_t kMostTokens = 16'000'000;  // of a prompt and its reply

struct Lengths {
  enum class Kind { kConstant, kUniform, kLognormal, kTrace };
  Kind kind = Kind::kConstant;
  double median = 128;  // kConstant: the length
  double sigma = 0;     // of the logarithm, kLognormal
  std::int64_t least = 1, most = kMostTokens / 2;
  std::string describe() const;
  std::int64_t draw(Random& random) const;  // not for kTrace
};

// "512", "uniform:LOW:HIGH", "lognormal:MEDIAN:SIGMA[:LOW:HIGH]" or "trace". `option` is named in errors.
Result<Lengths> parse_lengths(const char* option, std::string_view text);

}  // namespace weir::traffic
