#include "model/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace weir::model {
namespace {

using load::RopeSpec;

// Llama 3.1: turns longer than the trained context are slowed by the factor, short ones kept, with a smooth passage
// between.
double llama3_frequency(const RopeSpec& rope, double frequency) {
  const double turns = static_cast<double>(rope.original_context) * frequency / (2 * std::numbers::pi);
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - kept) * frequency / rope.factor + kept * frequency;
}

// The dimension pair that makes `turns` turns over the trained context.
double yarn_dimension(const RopeSpec& rope, double turns) {
  return rope.dims * std::log(static_cast<double>(rope.original_context) / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

// YaRN: pairs before the ramp keep their frequency, those after it are slowed by the factor.
void scale_yarn(const RopeSpec& rope, RopeFrequencies& result) {
  double first = yarn_dimension(rope, rope.beta_fast), last = yarn_dimension(rope, rope.beta_slow);
  if (rope.yarn_truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, rope.dims - 1.0);
  if (first == last) last += 0.001;  // a step instead of a division by zero
  for (std::size_t i = 0; i < result.radians_per_token.size(); ++i) {
    double& frequency = result.radians_per_token[i];
    const double slowed = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    frequency = frequency / rope.factor * slowed + frequency * (1 - slowed);
  }
  result.magnitude = rope.attention_factor;
  if (rope.attention_factor == 0.0) result.magnitude = rope.factor > 1 ? 1 + 0.1 * std::log(rope.factor) : 1.0;
}

std::vector<double> divided(std::vector<double> frequencies, const std::vector<float>& divisors) {
  CHECK(divisors.size() == frequencies.size(), "{} frequency divisors for {} pairs", divisors.size(),
        frequencies.size());
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= double{divisors[i]};
  return frequencies;
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeSpec& rope) {
  const auto pairs = static_cast<std::size_t>(rope.dims / 2);
  RopeFrequencies result;
  result.radians_per_token.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    double& frequency = result.radians_per_token[i];
    frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / rope.dims);
    if (rope.scaling == RopeSpec::Scaling::kLinear) frequency /= rope.factor;
    if (rope.scaling == RopeSpec::Scaling::kLlama3) frequency = llama3_frequency(rope, frequency);
  }
  if (rope.scaling == RopeSpec::Scaling::kYarn) scale_yarn(rope, result);
  if (rope.scaling == RopeSpec::Scaling::kLong) {
    result.magnitude = rope.attention_factor;
    result.long_from = rope.original_context;
    result.long_radians_per_token = divided(result.radians_per_token, rope.long_divisors);
  }
  if (rope.growth != 0) {
    result.growth = rope.growth;
    result.grows_every = rope.original_context;
  }
  if (!rope.frequency_divisors.empty())
    result.radians_per_token = divided(std::move(result.radians_per_token), rope.frequency_divisors);
  return result;
}

void fill_rope_row(const RopeFrequencies& frequencies, std::int64_t position, std::int64_t known, float* cos,
                   float* sin) {
  const bool is_long = !frequencies.long_radians_per_token.empty() && known > frequencies.long_from;
  const std::vector<double>& radians = is_long ? frequencies.long_radians_per_token : frequencies.radians_per_token;
  const auto turns = static_cast<double>(position / frequencies.grows_every);
  const double magnitude = frequencies.magnitude * (1 + frequencies.growth * std::log1p(turns));
  for (std::size_t i = 0; i < radians.size(); ++i) {
    const double angle = static_cast<double>(position) * radians[i];
    cos[i] = static_cast<float>(std::cos(angle) * magnitude);
    sin[i] = static_cast<float>(std::sin(angle) * magnitude);
  }
}

}  // namespace weir::model
