#include "sample/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "sample/row_math.h"

namespace weir::sample {
namespace {

// ln of the sum of exp(logit).
double log_sum_exp(std::span<const float> logits, float max) {
  return static_cast<double>(max) + std::log(sum_exp(logits, max));
}

double at(std::span<const float> logits, TokenId id) {
  CHECK(id >= 0 && static_cast<std::size_t>(id) < logits.size(), "id={} vocab={}", id, logits.size());
  return static_cast<double>(logits[static_cast<std::size_t>(id)]);
}

// `base` less `base_log_sum` are the base's log-probabilities; those not above `floor` are none.
RowDivergence compare(std::span<const float> base, double base_log_sum, float floor, std::span<const float> logits,
                      TokenId target) {
  CHECK(base.size() == logits.size(), "{} and {} logits", base.size(), logits.size());
  const float base_max = row_max(base), max = row_max(logits);
  const double log_sum = log_sum_exp(logits, max);
  RowDivergence row;
  row.base_surprise = base_log_sum - at(base, target);
  row.surprise = log_sum - at(logits, target);
  row.same_best = index_of(base, base_max) == index_of(logits, max);
  double kl = 0, reverse = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    const double log_base = static_cast<double>(base[i]) - base_log_sum;
    const double log_p = static_cast<double>(logits[i]) - log_sum;
    const double p_base = base[i] > floor ? std::exp(log_base) : 0, p = std::exp(log_p);
    // What never comes counts nothing, also where the other row says the same with another -infinity.
    if (p_base > 0) kl += p_base * (log_base - log_p);
    if (p > 0) reverse += p * (log_p - log_base);
  }
  // Rounding may take them below nothing.
  row.kl = std::max(kl, 0.0);
  row.reverse_kl = std::max(reverse, 0.0);
  return row;
}

}  // namespace

double surprise(std::span<const float> logits, TokenId target) {
  return log_sum_exp(logits, row_max(logits)) - at(logits, target);
}

RowDivergence compare_rows(std::span<const float> base, std::span<const float> logits, TokenId target) {
  return compare(base, log_sum_exp(base, row_max(base)), -std::numeric_limits<float>::infinity(), logits, target);
}

RowDivergence compare_saved(std::span<const float> base_logprobs, float floor, std::span<const float> logits,
                            TokenId target) {
  return compare(base_logprobs, 0, floor, logits, target);
}

Estimate estimate(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return {};
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, values.size() > 1 ? std::sqrt(squares / (n - 1) / n) : 0};
}

Estimate exp_of(const Estimate& mean) {
  const double value = std::exp(mean.mean);
  return {value, value * mean.error};
}

double percentile(std::span<const double> sorted, double share) {
  CHECK(!sorted.empty() && share >= 0 && share <= 1, "share={} of {}", share, sorted.size());
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return (1 - part) * sorted[below] + part * sorted[above];
}

}  // namespace weir::sample
