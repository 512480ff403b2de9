// Workloads drawn from distributions: when requests come, how long prompts and replies are, what they share.
//
// Every number is a function of (seed, what it is for, index) alone: the same seed gives the same requests on any
// machine, and another rate the same lengths.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/sim/workload.h"
#include "traffic/arrivals.h"
#include "traffic/lengths.h"

namespace weir::plan::sim {

using traffic::Arrivals;
using traffic::Lengths;

struct GenerateSpec {
  std::size_t requests = 1000;
  std::uint64_t seed = 1;
  Arrivals arrivals{.kind = Arrivals::Kind::kPoisson};
  Lengths prompt, output;
  std::vector<std::pair<std::int64_t, std::int64_t>>
      empirical;                   // prompt and output tokens; not empty: drawn from these
  std::int64_t prefix_tokens = 0;  // every prompt begins with one of prefix_groups prefixes, beyond its own length
  int prefix_groups = 1;
};

Workload generate(const GenerateSpec& spec);

}  // namespace weir::plan::sim
