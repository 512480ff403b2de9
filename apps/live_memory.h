// The resident set of a server: predicted and measured.
//
//   resident = fixed    program, weights, tokenizer: measured once by `plan calibrate`, of a small server
//            + steps    activations of as many rows as a step takes: counted from the model's widths
//            + logits   rows of the vocabulary, as many as sample at once up to a piece: counted
//            + KV       blocks that were ever written: the simulator runs the engine's own KV manager
//
// Large pieces of memory become resident in pages of 2 MiB where the system has them (backend/cpu/memory.h).
#pragma once

#include <vector>

#include "apps/child_server.h"
#include "apps/live_side.h"
#include "plan/report.h"

namespace weir::apps {

struct LiveMemory {
  std::string model;
  ServerSetting setting;
  double measured_bytes = 0;
  double fixed_bytes = 0, step_bytes = 0, logit_bytes = 0, kv_bytes = 0;
  double predicted_bytes() const { return fixed_bytes + step_bytes + logit_bytes + kv_bytes; }
  double error() const { return measured_bytes > 0 ? predicted_bytes() / measured_bytes - 1 : 1; }
};

// Blocks of the pool that loads have written. With a cache every full block stays, so new ones are taken until the pool
// is used up; without, the block freed last is taken first, and it is the most that were in use at once.
class WrittenBlocks {
 public:
  explicit WrittenBlocks(const LiveSide& side) : side_(side) {}
  void add(const driver::WorkloadSpec& spec, const plan::sim::SimResult& predicted);
  double blocks() const;

 private:
  const LiveSide& side_;
  double most_ = 0, kept_ = 0;
};

// Fills the server: a prompt of as many tokens as a step takes, prompts that fill a cache's pool, and short ones whose
// replies are made at once, as many as the setting allows. What is resident after that a server stays at, however it
// was loaded before; the peak of a load in between depends on how fast the machine was that second.
Result<LiveMemory> compare_memory(const LiveSide& side, const ChildServer& server, std::uint64_t seed,
                                  WrittenBlocks written);

// The fixed part: what a small server of the model holds beside all that is counted.
Result<double> measure_fixed_bytes(const LiveModel& model, int threads, std::uint64_t seed);

// The table and its verdict; false: the target is missed.
bool report_memory(const std::vector<LiveMemory>& memory, plan::Report& report);

struct ValidateMemoryOptions {
  std::vector<std::string> models;
  int threads = 0;
  std::uint64_t seed = 1;
};
// Servers of each model with 1, 8 and 32 sequences, steps of 64, 512 and 2048 tokens, with and without a prefix cache.
Result<plan::Report> validate_memory(const ValidateMemoryOptions& options);

}  // namespace weir::apps
