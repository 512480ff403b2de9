// Distribution: how often which duration occurred, of millions of them, in one table of fixed size.
//
// A bucket is a 512th of a power of two: percentiles are right to 0.1 %; count, mean (to 1 ps), least and greatest are
// exact. Cost: add() a few nanoseconds. Durations of 2^-40 to 2^24 s (1 ps to half a year); what is outside counts as
// the end.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace weir::plan::sim {

class Distribution {
 public:
  Distribution() : counts_(kBuckets) {}

  void add(double seconds, std::int64_t times = 1) {
    counts_[bucket(seconds)] += times;
    count_ += times;
    sum_ += static_cast<Sum>(seconds * 0x1p40) * times;
    least_ = std::min(least_, seconds);
    greatest_ = std::max(greatest_, seconds);
  }
  void add(const Distribution& other);

  std::int64_t count() const { return count_; }
  double mean() const { return count_ > 0 ? static_cast<double>(sum_) / static_cast<double>(count_) * 0x1p-40 : 0; }
  double greatest() const { return count_ > 0 ? greatest_ : 0; }
  double percentile(double percent) const;  // the smallest value that so many do not exceed; 0 if there are none

 private:
  __extension__ using Sum = __int128;
  static constexpr int kBits = 9;                 // of the mantissa
  static constexpr int kLeast = -40, kMost = 24;  // powers of two
  static constexpr std::size_t kBuckets = static_cast<std::size_t>(kMost - kLeast) << kBits;

  static std::size_t bucket(double seconds) {
    const double in_range = std::clamp(seconds, 0x1p-40, 0x1.fffp23);
    const auto bits = std::bit_cast<std::uint64_t>(in_range) >> (52 - kBits);
    return static_cast<std::size_t>(bits) - (static_cast<std::size_t>(1023 + kLeast) << kBits);
  }
  static double middle(std::size_t bucket);

  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0;
  Sum sum_ = 0;  // of 2^-40 s; an integer, so that the order of adding does not show
  double least_ = 1e300, greatest_ = 0;
};

}  // namespace weir::plan::sim
