#include "plan/silicon/collective_path.h"

namespace weir::plan {
namespace {

constexpr double kKiB = 1024, kMiB = 1024 * kKiB;
constexpr double kMostOwn = 8 * kMiB;  // vLLM @00d618a, custom_all_reduce.py

// Below so many bytes vLLM sums with kernels of its own, and below so many over symmetric memory, by compute capability
// and number of devices (the same commit, all_reduce_utils.py).
struct SumLimits {
  double own = kMostOwn, symmetric = 0;
};
SumLimits sum_limits(double compute_capability, double devices) {
  const auto pick = [devices](double two, double four, double eight) {
    return devices <= 2 ? two : devices <= 4 ? four : eight;
  };
  if (compute_capability == 9.0) return {pick(kMostOwn, kMostOwn, 256 * kKiB), pick(64 * kMiB, 32 * kMiB, 64 * kMiB)};
  if (compute_capability == 10.0) return {pick(2 * kMiB, 2 * kMiB, kMiB), pick(8 * kMiB, 32 * kMiB, 128 * kMiB)};
  return {};
}

}  // namespace

// Its own all-reduce is not for more than two devices without links of their own: the library's ring does it then
// (custom_all_reduce.py), as above the limits. Whole buffers where there are two devices or few bytes
// (csrc/custom_all_reduce.cuh).
CollectivePath sum_path(double compute_capability, bool shared, double devices, double bytes) {
  if (shared && devices > 2) return CollectivePath::kRing;
  const SumLimits limits = sum_limits(compute_capability, devices);
  if (bytes < limits.own) {
    const double whole = devices <= 4 ? 512 * kKiB : 256 * kKiB;
    return devices <= 2 || bytes < whole ? CollectivePath::kOnce : CollectivePath::kTwice;
  }
  return bytes < limits.symmetric ? CollectivePath::kSymmetric : CollectivePath::kRing;
}

}  // namespace weir::plan
