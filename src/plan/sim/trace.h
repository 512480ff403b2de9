// Traces (traffic/trace.h) as workloads.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "plan/sim/workload.h"
#include "traffic/trace.h"

namespace weir::plan::sim {

using traffic::Trace;

struct Replay {
  double len_scale = 1;   // of lengths and of what an id stands for
  double time_scale = 1;  // of times: 0.5 is twice the rate
  bool spread = true;     // requests of one tick over that tick, drawn by `seed`
  std::uint64_t seed = 1;
};

// The trace as a workload; its notes say what was made of it. kInvalidArgument for a trace without times.
Result<Workload> replay(const Trace& trace, const Replay& how);

// Requests a second over the trace's span.
double mean_rate(const Workload& workload);

}  // namespace weir::plan::sim
