// Scenario: from what a person says of a deployment and of its load to a Cluster and Workloads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/hardware.h"
#include "plan/model_card.h"
#include "plan/parallel_layout.h"
#include "plan/sim/generate.h"
#include "plan/sim/simulator.h"
#include "plan/sim/trace.h"

namespace weir::plan::sim {

inline constexpr int kDefaultBlockSize = 16;  // the engine's

struct ScenarioSpec {
  std::string model, hardware, weights;  // weights: a type's name; empty: as the model's files have them
  std::string step_model;                // file; empty: from model and hardware
  std::string backend;                   // whose measured step times; empty: what engines have in common
  ParallelLayout layout;
  double kv_bits = 16;
  double memory_share = 0.9;  // of a device's memory, for weights and KV
  int block_size = kDefaultBlockSize;
  std::int64_t num_blocks = 0;  // 0: what fits
  int max_num_seqs = 256, max_num_batched_tokens = 2048;
  std::int64_t max_model_len = 0;
  bool prefix_caching = true;
  std::string policy = "fcfs", router = "least-loaded";
  int instances = 1, decode_instances = 0;
  std::optional<ParallelLayout> decode_layout;  // else as layout
  std::optional<double> link_gbs;               // of an instance; else its devices' network cards
  double link_latency_ms = 0;
  bool layer_wise = true;
  std::vector<std::string> tiers;  // "NAME:GIGABYTES:GB_PER_S[:shared]"
  double kv_bytes_per_token = 0;   // without a model, for links and tiers
  double request_overhead_ms = 0, prompt_token_overhead_us = 0, output_overhead_ms = 0;
};

// Owns what the cluster points to.
struct Scenario {
  Cluster cluster;
  std::unique_ptr<const ModelCard> card;  // what the models are of
  std::unique_ptr<const Hardware> hardware;
  std::vector<std::unique_ptr<StepModel>> models;
  std::vector<std::string> assumptions;  // for people, each with its numbers
};

// Errors name the option and, where something does not fit, the number that rules it out.
Result<Scenario> make_scenario(const ScenarioSpec& spec);

struct LoadSpec {
  std::string trace;           // file
  std::string arrivals;        // empty: as the trace says
  std::string prompt, output;  // lengths; empty: as the trace says
  std::int64_t requests = 0;   // 0: all of a trace, 1000 without
  std::int64_t prefix_tokens = 0;
  int prefix_groups = 1;
  double len_scale = 1, time_scale = 1;
  bool spread = true;
};

// Workloads of one description: any seed, any rate.
class Load {
 public:
  static Result<Load> make(const LoadSpec& spec);

  // `rate`: requests a second instead of what was said.
  Result<Workload> draw(std::uint64_t seed, std::optional<double> rate = std::nullopt) const;
  bool closed() const { return !trace_times_ && generate_.arrivals.kind == Arrivals::Kind::kClosed; }
  bool has_rate() const;
  // Tokens of a KV block that lose nothing of what this load shares and are not more than they must be: those that an
  // id of the trace stands for, else the engine's default.
  int natural_block_size() const;
  std::string describe() const { return description_; }
  std::string describe_at_any_rate() const { return at_any_rate_; }  // without the rate that was asked for

 private:
  LoadSpec spec_;
  std::optional<Trace> trace_;
  bool trace_times_ = false;
  GenerateSpec generate_;
  std::string description_, at_any_rate_;
};

}  // namespace weir::plan::sim
