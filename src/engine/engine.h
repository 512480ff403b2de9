// Engine: sequences in, tokens out. Owns the model, the KV cache, the scheduler and the thread that steps them.
//
//   submit() / cancel()  any thread: they put a message into the mailbox and wake the engine thread
//   engine thread        mailbox -> scheduler -> forward pass -> sampling -> one call of the output sink per step
//
// The sink gets everything a step produced in one call, on the engine thread; it must only hand the outputs on (post to
// a worker). A step of sequences that are decoding allocates nothing. A sequence's life ends with exactly one output
// that has `finish` set, unless it was cancelled: then nothing comes after cancel() was taken. Stop strings, text and
// HTTP are not the engine's business.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/logit_reader.h"
#include "load/model_files.h"
#include "sample/logprobs.h"
#include "sample/sampling_params.h"
#include "sched/scheduler.h"

namespace weir::engine {

// One step as it was: for who measures the engine. Ranges are [begin, end) of each sequence's tokens.
struct StepRecord {
  double planned_s = 0.0, produced_s = 0.0;  // monotonic: before the scheduler's plan, when the tokens were there
  std::span<const sched::ScheduledRange> ranges;
  int running = 0, waiting = 0;  // after the plan
  std::uint32_t kv_blocks_in_use = 0;
};

struct EngineConfig {
  int threads = 0;                      // 0 = all usable cores
  std::string isa;                      // "" = best; see backend/cpu/cpu_backend.h
  bool exact_compute = false;           // --compute exact
  std::string kv_cache_dtype = "auto";  // auto | f32 | f16 | bf16
  int block_size = 16;
  std::optional<std::uint32_t> num_kv_blocks;
  std::optional<std::int64_t> kv_cache_memory_bytes;
  std::int64_t max_model_len = 0;  // 0 = the model's, bounded by the KV pool
  int max_num_seqs = 256;
  int max_num_batched_tokens = 512;  // a step of 512 rows is at full arithmetic speed and keeps token latency low
  std::string scheduling_policy = "fcfs";
  std::string prefix_index = "hash";
  bool enable_prefix_caching = true;
  std::size_t max_queued_sequences = 4096;  // submit() refuses beyond this
  // Called on the engine thread after each step; must not block. What it is given is gone afterwards.
  std::function<void(const StepRecord&)> on_step;
};

struct SequenceRequest {
  std::vector<TokenId> prompt;
  sample::SamplingParams sampling;
  std::vector<TokenId> eos_ids;  // end the reply with finish kStop unless ignore_eos; in order of submit's caller
  int priority = 0;
  std::string cache_salt;
  // Who reads the logits about the prompt's tokens from number `logits_from` (at least 1) on; must outlive the
  // sequence.
  LogitReader* logits = nullptr;
  std::int64_t logits_from = 1;
};

using sample::PositionLogprobs;
using sample::TokenLogprob;

// kError: the logits were not finite, i.e. the model's weights or its numbers are broken.
enum class FinishReason { kStop, kLength, kError };

struct SequenceOutput {
  SeqId id{};
  // New ones, in order; an end token that finished the sequence is among them. Most steps give one.
  boost::container::small_vector<TokenId, 4> tokens;
  std::vector<PositionLogprobs> logprobs;         // one per token, if asked for
  std::vector<PositionLogprobs> prompt_logprobs;  // with the first output, if asked for: prompt tokens 1 .. n-1
  std::optional<FinishReason> finish;
  std::string error;                  // why, with kError
  std::optional<TokenId> stop_token;  // the end or stop token that finished it
  std::int64_t cached_tokens = 0;     // of the prompt
  double queued_s = 0.0;              // monotonic seconds: submitted,
  double scheduled_s = 0.0;           // first scheduled,
  double produced_s = 0.0;            // this output
};

// The vector is the engine's, which clears and fills it again: take what is in it.
using OutputSink = std::function<void(std::vector<SequenceOutput>&)>;

struct EngineStats {
  int running = 0, waiting = 0;
  double kv_usage = 0.0;
  std::uint32_t kv_blocks = 0, kv_blocks_in_use = 0;
  std::uint64_t preemptions = 0, prefix_queries_tokens = 0, prefix_hits_tokens = 0;
  std::uint64_t steps = 0;
  std::uint64_t step_tokens = 0;  // computed, prefill and decode
};

struct EngineInfo {
  std::string backend;  // "cpu, AVX-512 VNNI+BF16, 2 threads"
  std::int64_t max_model_len = 0;
  int block_size = 0;
  std::uint32_t num_kv_blocks = 0;
  std::int64_t kv_bytes = 0, weight_bytes = 0;
  std::string kv_dtype;
  std::string prefix_index;
  int max_num_seqs = 0, max_num_batched_tokens = 0;
  double load_s = 0.0;
};

class Engine {
 public:
  // Packs the weights (and lets go of the file's pages), allocates the KV pool, starts the engine thread.
  static Result<std::unique_ptr<Engine>> create(const EngineConfig& config, load::ModelFiles& files, OutputSink sink);
  ~Engine();  // cancels everything and joins

  const EngineInfo& info() const;
  // kContextLengthExceeded (both numbers) or kOverloaded; never blocks.
  Result<SeqId> submit(SequenceRequest request);
  // Several sequences that belong together (n choices, a list of prompts): all or none.
  Result<std::vector<SeqId>> submit_all(std::vector<SequenceRequest> requests);
  void cancel(SeqId id);
  EngineStats stats() const;  // a snapshot, any thread
  Status check_fits(std::int64_t prompt_tokens, std::int64_t max_tokens) const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::engine
