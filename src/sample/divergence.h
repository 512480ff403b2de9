// How well rows of logits foretell what came, and how far those of one model are from those of another.
//
// Everything is a function of the rows alone: sums run in ascending id, in double. Cost: some passes over the row with
// two exponentials per entry. Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace weir::sample {

// -ln p(target).
double surprise(std::span<const float> logits, TokenId target);

struct RowDivergence {
  double surprise = 0, base_surprise = 0;  // of the target, in nats
  double kl = 0;                           // sum of p_base ln(p_base / p): what it costs to take the row for the base
  double reverse_kl = 0;                   // sum of p ln(p / p_base)
  bool same_best = false;
};

// The rows must be of one length and hold a finite entry each.
RowDivergence compare_rows(std::span<const float> base, std::span<const float> logits, TokenId target);

// The same where the base's log-probabilities were saved with a floor: what is not above it is at most that likely, and
// as a part of the base counts nothing.
RowDivergence compare_saved(std::span<const float> base_logprobs, float floor, std::span<const float> logits,
                            TokenId target);

struct Estimate {
  double mean = 0, error = 0;  // standard error of the mean
};
Estimate estimate(std::span<const double> values);

// exp of a mean, with the error that follows from that of the mean.
Estimate exp_of(const Estimate& mean);

// The value below which `share` of the values lie, between two of them interpolated (as numpy does). `sorted`:
// ascending, not empty.
double percentile(std::span<const double> sorted, double share);

}  // namespace weir::sample
