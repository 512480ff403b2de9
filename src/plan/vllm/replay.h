// replay(): the requests of a run through vLLM's engine loop on a virtual clock, with weir's own scheduler and KV
// manager (vLLM 0.19's rules are theirs: running first, in order of admission; one token budget, chunked prefill; a
// waiting sequence enters when its whole known text fits the pool, nobody overtakes; the last admitted is preempted
// and recomputed from what is cached of it).
//
// What of vLLM's loop decides times:
//   - asynchronous scheduling: step k + 1 is planned when step k - 1 has ended, while k runs. So a request that comes
//     during step k is read at its end and computed in k + 2, and a slot or block set free in k is taken in k + 2;
//   - a request is "queued" when the engine reads it, between steps;
//   - data parallelism: the client sends a request to the rank with the lowest 4 * waiting + running, by counts that
//     it gets every 100 ms and its own sends since; the ranks step together, idle ones with a row of nothing.
// Deterministic. Cost: O(sequences in each step), some 10 ns each.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "plan/vllm/run.h"

namespace weir::plan::vllm {

struct Replay {
  std::vector<RequestTimes> times;  // by request; 0 is the first arrival
  std::int64_t steps = 0, preemptions = 0;
};

// Errors: a request that can never fit the pool.
Result<Replay> replay(const Run& run, double load_factor);

}  // namespace weir::plan::vllm
