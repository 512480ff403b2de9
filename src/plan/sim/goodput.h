// `weir plan goodput`: the highest rate at which enough requests get what was promised.
#pragma once

#include <functional>
#include <vector>

#include "plan/report.h"
#include "plan/sim/scenario.h"
#include "plan/sim/summary.h"

namespace weir::plan::sim {

struct GoodputSpec {
  Slo slo;
  std::uint64_t seed = 1;
  int seeds = 3;
  double precision = 0.01;  // the search ends when the rate that passes and the one that fails are this close
};

struct RatePoint {
  double rate = 0;                                   // requests a second
  double attained = 0, ttft = 0, tpot = 0, e2e = 0;  // at the share that is promised, in s; of all seeds together
  double output_token_rate = 0, utilisation = 0;
  bool saturated = false, passes = false;
  std::int64_t requests = 0, failures = 0;
};

struct GoodputResult {
  RatePoint lone;                 // one request at a time: no better can be had
  std::vector<RatePoint> points;  // in the order they were tried
  double rate = 0;                // the highest that passes
  const RatePoint* best() const;
};

// kInvalidArgument if the promise cannot be kept even by lone requests, with the number that rules it out.
Result<GoodputResult> find_goodput(const Scenario& scenario, const Load& load, const GoodputSpec& spec);
Result<Report> goodput_report(const Scenario& scenario, const Load& load, const GoodputSpec& spec);

}  // namespace weir::plan::sim
