// Run: one measured run of vLLM, and all that a prediction of it may know: the model, the kernel profile of the
// device, the engine's settings, the links, and when which request came. What was measured lies in it too, apart, for
// the comparison only.
//
// A folder of a run, as LLMServingSim's bench writes them: meta.json (model, engine_kwargs, kv_cache),
// sim_config.json (device, memory, links), requests.jsonl (arrival, lengths, measured times), profile_tp<N>/ (see
// profile.h). Optional: config.json of a model that weir does not know by name; llmservingsim_summary.txt, what that
// simulator had predicted.
//
// Hostile input: files of at most 64 MB, at most 100,000 requests and 20 million tokens; errors name file and field
// or line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/vllm/profile.h"

namespace weir::plan::vllm {

struct Request {
  std::string id;
  double arrival_s = 0;  // 0: the first request's
  std::int64_t input_tokens = 0, output_tokens = 0;
};

// By the run's engine clock, of which 0 is when it got the first request.
struct RequestTimes {
  double queued_s = 0, first_s = 0, last_s = 0;
};

struct EngineSettings {
  int tp = 1, dp = 1;
  bool expert_parallel = false;
  int max_num_seqs = 0, max_num_batched_tokens = 0;
  int block_tokens = 16;
  std::int64_t num_blocks = 0;  // a device's; 0: not recorded
  bool prefix_caching = true;
  bool asynchronous = true;      // plans a step while the one before runs (vLLM's default since 0.14)
  std::vector<int> graph_sizes;  // rows of captured CUDA graphs, ascending; empty: eager
};

struct ModelFacts {
  int layers = 0, sparse_layers = 0, hidden = 0, vocab = 0;
  int experts = 0, experts_used = 0;
  double weight_bytes = 0, expert_bytes = 0;  // 16 bits a weight; all, and those of experts
  double kv_bytes_per_token = 0;
};

struct Device {
  std::string name;  // "RTX4090"
  double memory_bytes = 0, memory_share = 0;
  double link_bytes_per_s = 0, link_latency_s = 0;
};

struct Run {
  std::string name;      // of its folder
  std::string identity;  // model, device and start: equal for copies of one run
  std::string model;
  EngineSettings engine;
  ModelFacts facts;
  Device device;
  KernelProfile profile;
  std::vector<Request> requests;                   // by arrival
  std::vector<RequestTimes> measured;              // in the same order
  std::map<std::string, double> published_errors;  // of the other simulator: "TTFT Mean" -> percent
};

// The runs in the program.
Result<std::vector<Run>> known_runs();
// `folder`: of one run, or of folders of runs (those without meta.json are passed over).
Result<std::vector<Run>> read_runs(const std::string& folder);

// The KV blocks of one device: as recorded, or what its share of memory leaves beside the weights. kInvalidArgument
// where that is none.
Result<std::int64_t> kv_blocks(const Run& run);

// What read_runs() and known_runs() have in common: a run from its texts. `model_file`: config.json, or empty.
struct RunFiles {
  std::string name, meta, sim_config, requests, summary, model_file;
  ProfileFiles profile;
};
Result<Run> parse_run(const RunFiles& files);

}  // namespace weir::plan::vllm
