#include "traffic/lengths.h"

#include <algorithm>
#include <cmath>

#include "traffic/fields.h"

namespace weir::traffic {
namespace {

using Kind = Lengths::Kind;

constexpr double kMost = static_cast<double>(kMostTokens / 2), kMostSigma = 10;

bool bounds_of(Lengths& lengths, std::string_view low, std::string_view high) {
  const auto least = whole_in(low, 1, kMost), most = whole_in(high, 1, kMost);
  if (!least || !most || *least > *most) return false;
  lengths.least = static_cast<std::int64_t>(*least);
  lengths.most = static_cast<std::int64_t>(*most);
  return true;
}

bool read(Lengths& lengths, const std::vector<std::string_view>& fields) {
  const std::size_t count = fields.size();
  if (count == 1 && fields[0] == "trace") {
    lengths.kind = Kind::kTrace;
    return true;
  }
  if (count == 1) {
    const auto tokens = whole_in(fields[0], 1, kMost);
    if (tokens) lengths.median = *tokens;
    return tokens.has_value();
  }
  if (fields[0] == "uniform" && count == 3) {
    lengths.kind = Kind::kUniform;
    return bounds_of(lengths, fields[1], fields[2]);
  }
  if (fields[0] != "lognormal" || (count != 3 && count != 5)) return false;
  const auto median = number_in(fields[1], 1, kMost), sigma = number_in(fields[2], 0, kMostSigma);
  if (!median || !sigma) return false;
  lengths.kind = Kind::kLognormal;
  lengths.median = *median;
  lengths.sigma = *sigma;
  return count == 3 || bounds_of(lengths, fields[3], fields[4]);
}

}  // namespace

std::string Lengths::describe() const {
  switch (kind) {
    case Kind::kConstant:
      return fmt::format("{:g}", median);
    case Kind::kUniform:
      return fmt::format("uniform {} to {}", least, most);
    case Kind::kLognormal:
      return fmt::format("lognormal, median {:g}, sigma {:g}", median, sigma);
    case Kind::kTrace:
      return "the trace's";
  }
  return "?";
}

std::int64_t Lengths::draw(Random& random) const {
  if (kind == Kind::kUniform)
    return least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least + 1)));
  double value = median;
  if (kind == Kind::kLognormal) value *= std::exp(sigma * random.normal());
  return std::llround(std::clamp(value, static_cast<double>(least), static_cast<double>(most)));
}

Result<Lengths> parse_lengths(const char* option, std::string_view text) {
  Lengths lengths;
  if (read(lengths, split_fields(text, ':'))) return lengths;
  return fail_at(
      option, ErrorCode::kInvalidArgument,
      "--{} '{}' is none of TOKENS, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA[:LOW:HIGH] and trace, with 1 to "
      "{:.0f} tokens and a SIGMA of 0 to {:g}",
      option, printable(std::string(text.substr(0, 80))), kMost, kMostSigma);
}

}  // namespace weir::traffic
