// Prediction intervals from errors on rows that a fit had not seen (conformal prediction): the interval of a new row is
// the prediction times the quantiles of past ratios of measured to predicted, among rows with as much support.
#pragma once

#include <array>
#include <vector>

#include "plan/silicon/silicon_model.h"

namespace weir::plan {

struct Interval {
  double low = 0, high = 0;  // added to the logarithm of the prediction
  bool holds(double error) const { return low <= error && error <= high; }
};

// `errors`: log(measured / predicted). Quantiles by order statistics with n + 1 in the denominator, so that a new error
// of the same kind lies inside with the stated probability at least. Fewer than 20 errors: the outermost ones, doubled.
Interval interval_of(std::vector<double> errors, double probability = 0.9);

// A latency with its interval, neither below what the hardware allows.
struct Estimate {
  double ms = 0, low_ms = 0, high_ms = 0;
  double floor_ms = 0;
  bool raised = false;  // the model's own figure was lower, or the lower end of its interval
};
Estimate estimate(double log_ms, const Interval& interval, double floor_ms);

class Intervals {
 public:
  void add(Support support, double error) { errors_[static_cast<std::size_t>(support)].push_back(error); }
  // Of the support, or of all less supported ones too where it has fewer than kEnough errors.
  Interval at(Support support) const;
  static constexpr std::size_t kEnough = 40;

 private:
  std::array<std::vector<double>, kSupports> errors_;
};

}  // namespace weir::plan
