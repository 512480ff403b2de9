// Front: the best pairs of two rates seen so far, to ask whether a third can still matter.
//
// cost: O(log n) a question, amortised O(log n) an entry
#pragma once

#include <iterator>
#include <map>

namespace weir::plan {

class Front {
 public:
  // Another pair is at least as good in both.
  bool covers(double user, double device) const {
    const auto at = best_.lower_bound(user);
    return at != best_.end() && at->second >= device;
  }

  void add(double user, double device) {
    if (covers(user, device)) return;
    // What the new pair covers lies just below it.
    auto at = best_.upper_bound(user);
    while (at != best_.begin() && std::prev(at)->second <= device) at = best_.erase(std::prev(at));
    best_.emplace(user, device);
  }

 private:
  std::map<double, double> best_;  // user -> device; the higher the one, the lower the other
};

}  // namespace weir::plan
