#include "plan/silicon/intervals.h"

#include <algorithm>
#include <cmath>

namespace weir::plan {

Interval interval_of(std::vector<double> errors, double probability) {
  constexpr std::size_t kFewest = 20;
  if (errors.empty()) return {-1.0, 1.0};  // nothing known: a factor of e each way
  std::sort(errors.begin(), errors.end());
  const std::size_t n = errors.size();
  if (n < kFewest) {
    const double widest = std::max(std::abs(errors.front()), std::abs(errors.back()));
    return {-2 * widest, 2 * widest};
  }
  const double tail = (1 - probability) / 2 * static_cast<double>(n + 1);
  const auto below = static_cast<std::size_t>(std::max(1.0, std::floor(tail)));
  return {errors[below - 1], errors[n - below]};
}

Estimate estimate(double log_ms, const Interval& interval, double floor_ms) {
  const auto within = [&](double log) { return std::max(floor_ms, std::exp(log)); };
  return {within(log_ms), within(log_ms + interval.low), within(log_ms + interval.high), floor_ms,
          std::exp(log_ms + std::min(0.0, interval.low)) < floor_ms};
}

Interval Intervals::at(Support support) const {
  std::vector<double> errors = errors_[static_cast<std::size_t>(support)];
  for (std::size_t other = static_cast<std::size_t>(support); errors.size() < kEnough && other-- > 0;)
    errors.insert(errors.end(), errors_[other].begin(), errors_[other].end());
  for (std::size_t other = static_cast<std::size_t>(support) + 1; errors.size() < kEnough && other < kSupports; ++other)
    errors.insert(errors.end(), errors_[other].begin(), errors_[other].end());
  return interval_of(std::move(errors));
}

}  // namespace weir::plan
