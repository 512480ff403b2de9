// Which layouts are tried.
#include <algorithm>

#include "plan/search/search.h"

namespace weir::plan {
namespace {

// 1, 2, 3, 4, 6, 8, 12, ...: what divides heads, layers and experts of models there are.
std::vector<int> degrees(int most) {
  std::vector<int> all;
  for (int power = 1; power <= most; power *= 2) {
    all.push_back(power);
    if (power * 3 / 2 <= most && power >= 2) all.push_back(power * 3 / 2);
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

std::vector<ParallelLayout> candidate_layouts(int max_devices, int domain, bool experts, std::size_t limit) {
  std::vector<ParallelLayout> layouts;
  const int inside = std::min(max_devices, std::max(1, domain));
  for (const int tp : degrees(inside)) {
    for (const int cp : degrees(inside / tp)) {
      for (const int dp : degrees(experts ? max_devices / (tp * cp) : 1)) {
        for (const int pp : degrees(max_devices / (tp * cp * dp))) {
          ParallelLayout layout{.tp = tp, .pp = pp, .dp = dp, .cp = cp};
          for (const int ep : degrees(experts ? layout.stage_devices() : 1)) {
            if (layout.stage_devices() % ep != 0) continue;
            layout.ep = ep;
            layouts.push_back(layout);
          }
        }
      }
    }
  }
  // Small ones first: what `limit` leaves out are the largest.
  std::stable_sort(layouts.begin(), layouts.end(),
                   [](const auto& a, const auto& b) { return a.devices() < b.devices(); });
  if (layouts.size() > limit) layouts.resize(limit);
  return layouts;
}

}  // namespace weir::plan
