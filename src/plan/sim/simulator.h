// Simulator: a workload on one or many instances of an engine, on a virtual clock.
//
// Each instance is the engine's own scheduler and KV manager (src/sched, src/kv) in the engine's loop: what arrives
// during a step enters before the next one; a step plans, takes as long as the StepModel says, and all of its tokens
// come at its end. Around them: a router, per-request overheads, the hand-over of KV from prefill to decode instances,
// and tiers that hold prefixes the pool has evicted.
//
// Events at the same time: requests enter first, then steps end, then steps begin; instances in order of number.
// Invariants: the clock never goes back; no token before its request was sent; every request ends or is refused; every
// block is free or cached at the end (check_integrity()). The same cluster and workload give the same bytes.
// Steps that only decode are passed over in bulk (Scheduler::repeat) where the result is the same to the bit.
// Cost: about 20 ns a bulk step, 0.1 us a planned one and 20 ns a row in it. Threads: none; runs beside each other
// share nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/sim/distribution.h"
#include "plan/sim/workload.h"
#include "plan/step_model.h"
#include "sched/scheduler.h"

namespace weir::plan::sim {

// What a request costs outside of steps, on its instance's way in and out; nobody waits for anybody there.
struct Overheads {
  double request_s = 0;       // from the client's sending to the engine's queue
  double prompt_token_s = 0;  // the same, more for each token of the prompt
  double output_s = 0;        // from the end of a step to the client's having the token
};

struct InstanceConfig {
  sched::SchedulerConfig scheduler;
  int block_tokens = 16;
  std::uint32_t num_blocks = 0;      // of the pool
  std::vector<int> windows = {0};    // of the KV groups, as kv::KvGroup
  std::int64_t state_blocks = 0;     // of a sequence's recurrent state
  const StepModel* model = nullptr;  // outlives the simulation
  Overheads overheads;
};

// Where the KV of evicted prefixes lies. Every full block of a prompt is written when the prompt has been read; the
// block used longest ago leaves for the next tier.
struct Tier {
  std::string name;  // "dram"
  double capacity_bytes = 0;
  double read_bytes_s = 0;  // of each instance
  double latency_s = 0;     // of each fetch
  bool shared = false;      // one for all instances, else each has its own
};

// How KV gets from a prefill to a decode instance. Each instance has one link out and one in; a link serves one request
// after the other.
struct Handover {
  double bytes_s = 0;  // 0: takes no time
  double latency_s = 0;
  int layers = 1;          // the KV of a layer can leave when the layer has been computed...
  bool layer_wise = true;  // ... or all of it when the prompt has been read
};

enum class Routing { kRoundRobin, kLeastLoaded, kPrefixAware };
Result<Routing> parse_routing(std::string_view name);

struct Cluster {
  int instances = 1;  // that read prompts, and decode unless there are decode instances
  InstanceConfig instance;
  int decode_instances = 0;  // > 0: disaggregated
  InstanceConfig decode;
  double kv_bytes_per_token = 0;  // for hand-over and tiers
  Handover handover;
  std::vector<Tier> tiers;  // nearest first
  Routing routing = Routing::kLeastLoaded;
  bool in_bulk = true;  // false: every step by itself. Slower, and the same result
};

// Times on the client's clock.
struct RequestResult {
  double sent_s = 0;
  double scheduled_s = -1;  // its first step began; -1: never
  double first_s = -1;      // first token (of a request without output: its end)
  double last_s = -1;
  double longest_gap_s = 0;        // between two of its tokens
  std::int64_t cached_tokens = 0;  // of the prompt, found in the pool
  std::int64_t loaded_tokens = 0;  // fetched from tiers, beyond those
  int preemptions = 0;
  int instance = -1, decode_instance = -1;
  std::int64_t output_tokens = 0;
  bool refused = false;  // can never fit

  bool finished() const { return last_s >= 0; }
  double ttft_s() const { return first_s - sent_s; }
  double e2e_s() const { return last_s - sent_s; }
  // Mean time of a token after the first.
  double tpot_s() const { return output_tokens > 1 ? (last_s - first_s) / static_cast<double>(output_tokens - 1) : 0; }
};

struct InstanceResult {
  std::int64_t steps = 0, tokens = 0;  // tokens: rows computed
  double busy_s = 0;
  double kv_usage_s = 0;  // integral over busy time of the fraction of blocks in use
  double kv_peak = 0;     // fraction
  std::uint64_t preemptions = 0;
  std::uint64_t prefix_queries_tokens = 0, prefix_hits_tokens = 0;
  int most_running = 0, most_waiting = 0;
};

struct SimResult {
  std::vector<RequestResult> requests;                // as in the workload
  std::vector<InstanceResult> instances;              // decode instances last
  Distribution itl_s;                                 // gaps between tokens of one request, all of them
  double prompt_tokens = 0;                           // of the requests that were not refused
  double end_s = 0;                                   // of the last step
  double in_system_s = 0;                             // integral over time of the requests sent and not yet done
  double transferred_bytes = 0, transfer_wait_s = 0;  // hand-over; what requests waited for it
  double fetched_bytes = 0, fetches = 0;              // from tiers
  std::int64_t steps_in_bulk = 0;
};

// kInvalidArgument for a cluster or workload that makes no sense, naming the field; kContextLengthExceeded if not one
// request fits, with the first one's numbers.
Result<SimResult> simulate(const Cluster& cluster, const Workload& workload);

}  // namespace weir::plan::sim
