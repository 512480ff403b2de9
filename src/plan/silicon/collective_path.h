// CollectivePath: which way a collective's bytes go, by the rules of the software that sends them. Pure.
#pragma once

#include <array>
#include <string_view>

namespace weir::plan {

enum class CollectivePath {
  kRing,       // the library's: every device passes parts to the next
  kExchange,   // each to each
  kOnce,       // vLLM's own sum: every device reads the others' whole buffers
  kTwice,      // the same of a part each, then the sums
  kSymmetric,  // over symmetric memory
};
constexpr std::array<std::string_view, 5> kCollectivePathNames = {"ring", "exchange", "own", "own", "symmetric"};

// Of an all-reduce under vLLM. `shared`: devices without links of their own share the host's.
CollectivePath sum_path(double compute_capability, bool shared, double devices, double bytes);

}  // namespace weir::plan
