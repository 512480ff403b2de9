// The search for deployments: every layout, precision, batch and split of roles that fits, and of these the Pareto
// front of tokens per second per device against tokens per second per user.
//
// Steady state: an instance keeps `batch` sequences decoding, and the prompts that replace finished ones are computed
// beside them in chunks (docs/planning/parallel.md has the arithmetic). Exhaustive over its grid; what is left out is
// left out because a bound proves that it cannot be on the front. The same request gives the same result, byte for
// byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/hardware.h"
#include "plan/search/instance_model.h"

namespace weir::plan {

struct SearchWorkload {
  double input_tokens = 1024, output_tokens = 1024;
  double cached_fraction = 0;  // of the input, found in the prefix cache

  // What a prefix cache with blocks of so many tokens leaves to compute: at least the last token.
  double computed_tokens(int block_size) const;
  double mean_context() const { return input_tokens + output_tokens / 2; }
  double longest_context() const { return input_tokens + output_tokens; }
};

// Links as a hand-over from prefill to decoding sees them.
struct SearchLinks {
  double domain_gbs = 0, network_gbs = 0;  // of a device, each direction; 0: none
  int domain = 8;
};

struct SearchRequest {
  SearchWorkload workload;
  int max_devices = 8;
  SearchLinks links;
  int layers = 1;
  std::vector<ParallelLayout> layouts;  // candidate_layouts(), or what the caller wants compared
  std::vector<Precision> precisions;
  std::vector<int> batch_tokens = {512, 1024, 2048, 4096, 8192, 16384};
  std::vector<int> block_sizes = {16, 64, 256};
  std::int64_t max_batch = 4096;  // sequences of an instance
  bool aggregated = true, disaggregated = true;
  std::optional<double> ttft_ms, tpot_ms;
  double price_per_device_hour = 0;  // 0: not known
};

// What keeps the batch from being larger.
enum class BatchLimit { kNothing, kKvCapacity, kTpot, kTtft, kPrefill, kMaxBatch };
std::string_view batch_limit_name(BatchLimit limit);

struct SearchPoint {
  Deployment deployment;
  Precision precision;
  std::int64_t batch = 0;  // sequences that decode together in a serving instance
  int batch_tokens = 0;    // most tokens of a pass (of a prefill instance if disaggregated)
  int block_size = 0;
  double ttft_ms = 0, tpot_ms = 0;
  double user_tokens_s = 0;    // 1 / TPOT
  double device_tokens_s = 0;  // output tokens
  double requests_s = 0;       // of the whole deployment
  double cost_output = 0;      // of a million output tokens; 0: no price
  double cost_all = 0;         // of a million tokens, read and written
  DeviceBytes memory;          // of a device that decodes
  double kv_bytes = 0;         // of it, used
  StepParts parts;             // of the pass that decodes
  Resource binds = Resource::kMemoryBandwidth;
  BatchLimit limit = BatchLimit::kNothing;
};

// A layout that was ruled out, and by which number.
struct Refusal {
  ParallelLayout layout;
  Precision precision;
  std::string term;  // "weights", "workspace", "KV", "layout"
  double need = 0, have = 0;
  std::string text;
};

struct SearchResult {
  std::vector<SearchPoint> front;  // fastest per user first
  std::vector<SearchPoint> best;   // per layout and role the point with most tokens per device, best first
  std::vector<Refusal> refusals;   // one per layout and precision
  std::int64_t evaluated = 0, pruned = 0;
};

// kInvalidArgument: numbers out of range. kUnsupported: nothing fits, or an objective is below what one step takes; the
// message says which number rules it out.
Result<SearchResult> search_deployments(const InstanceSource& source, const SearchRequest& request);

// What the search builds on, for its tests and for who wants one point.

// The layouts of 1..max_devices devices: powers of two and three times them, TP and CP inside a domain; DP and EP only
// for mixtures of experts (others deploy more instances instead).
std::vector<ParallelLayout> candidate_layouts(int max_devices, int domain, bool experts, std::size_t limit = 4096);

struct SteadyState {
  double ttft_s = 0, tpot_s = 0;
  double prefill_share = 0;  // of what passes could compute of prompts, in use
  StepShape decode;          // the pass without a prompt
};

// nullopt: prompts come faster than the passes can take them.
std::optional<SteadyState> aggregated_steady_state(const InstanceModel& model, const ParallelLayout& layout,
                                                   const SearchWorkload& workload, std::int64_t batch, int batch_tokens,
                                                   int block_size);

// What one sequence of the workload keeps on a device, over ages spread evenly from its prompt to its end.
struct KvOfSequence {
  double mean = 0, deviation = 0, most = 0;
};
KvOfSequence kv_of_sequence(const InstanceModel& model, const SearchWorkload& workload, int block_size);

// Of `batch` sequences of such ages on a device: their mean, and two deviations of the sum held free; never more than
// all at their longest.
double kv_need(const KvOfSequence& kv, const ParallelLayout& layout, std::int64_t batch);

SteadyState decode_steady_state(const InstanceModel& model, const ParallelLayout& layout,
                                const SearchWorkload& workload, std::int64_t batch);

// An instance that computes prompts only.
struct PrefillState {
  double prompts = 0;     // in a pass
  double service_s = 0;   // of one prompt, without waiting
  double requests_s = 0;  // at most
  StepShape shape;
};
PrefillState prefill_state(const InstanceModel& model, const ParallelLayout& layout, const SearchWorkload& workload,
                           int batch_tokens, int block_size);
double most_prefill_share();  // of its capacity that a pool of prompts is planned to use
double queue_wait(double share, double service_s, int servers);

// Removes what another point equals or exceeds in both rates; fastest per user first.
void keep_front(std::vector<SearchPoint>& points);

}  // namespace weir::plan
