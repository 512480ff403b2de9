#include "plan/sim/distribution.h"

#include <cmath>

namespace weir::plan::sim {

void Distribution::add(const Distribution& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  least_ = std::min(least_, other.least_);
  greatest_ = std::max(greatest_, other.greatest_);
}

double Distribution::middle(std::size_t bucket) {
  const auto bits = (static_cast<std::uint64_t>(bucket) + (static_cast<std::uint64_t>(1023 + kLeast) << kBits));
  return std::bit_cast<double>((bits << (52 - kBits)) | (std::uint64_t{1} << (51 - kBits)));
}

double Distribution::percentile(double percent) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<std::int64_t>(std::ceil(static_cast<double>(count_) * percent / 100));
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= std::max<std::int64_t>(wanted, 1)) return std::clamp(middle(i), least_, greatest_);
  }
  return greatest_;
}

}  // namespace weir::plan::sim
