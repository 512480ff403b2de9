// Scheduler: which tokens of which sequences are computed in the next step. Pure and deterministic: events and a time
// in, a StepPlan out; no clock, thread, device or I/O of its own, so the engine, the planner's simulator and tests at
// millions of steps run this same code.
//
// A sequence is tokens known (prompt + output) and tokens computed. A step hands out tokens, at most
// max_num_batched_tokens in all, so that computed catches up with known: prefill, decode and resumed sequences are one
// thing (vLLM V1's formulation).
//   1. Running sequences first, in order of admission. Too few blocks for a range: it is cut to what they hold. No
//      block for even one token: the latest admitted (policy priority: the least urgent) is preempted, its KV freed,
//      and recomputed later from prompt and output so far; it waits at the head of the queue (of its priority). What it
//      had been given in this step is given back.
//   2. Then, if nobody was preempted or cut short of blocks in this step, waiting ones in policy order while budget and
//      slots last: a sequence is admitted when its whole known text fits the pool now (blocks_needed is the one
//      formula). The head does not fit: stop, nobody overtakes it. Beside others it must fit with full steps; alone,
//      one token per step will do, as check_fits() promised.
// Progress rule: if any sequence is running or waiting, every step computes at least one token of some sequence
// (CHECKed); a sequence that can never fit is refused by check_fits() before it gets in.
// Threads: engine thread only. Cost of schedule(): O(running + admitted).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/kv_manager.h"

namespace weir::sched {

enum class Policy { kFcfs, kPriority };  // kPriority: lower number first, then arrival

// The value of --scheduling-policy.
Result<Policy> parse_policy(std::string_view name);

struct SchedulerConfig {
  int max_num_seqs = 256;
  int max_num_batched_tokens = 2048;
  std::int64_t max_model_len = 0;  // most tokens of prompt and reply; 0: only the pool limits
  Policy policy = Policy::kFcfs;
  bool enable_prefix_caching = true;
  // > 0: what is computed of a sequence differs as soon as more tokens than this are known (LongRoPE): then it is
  // computed anew from its first token on, and shares no prefix with shorter ones.
  std::int64_t long_from = 0;
  // Whoever drives this may plan a step before the one under way has brought its tokens (vLLM's asynchronous
  // scheduling), and so call finish() one schedule() late: a sequence with all its tokens keeps its place and its
  // blocks until then and gets no range. Only then may a plan be empty while sequences run.
  bool late_finish = false;
};

struct NewSequence {
  SeqId id{};
  std::vector<TokenId> prompt;  // >= 1 token
  // > 0: the prompt has so many tokens and `prompt` is the outline (kv::KvConfig::ids_per_block) of it and of the whole
  // reply. commit() gets no token for such a sequence.
  std::int64_t outlined_tokens = 0;
  kv::PrefixNames names;  // of the text's leading blocks, if somebody has made them before
  // KV of so many leading tokens comes from elsewhere (another instance, a tier) and is there at the first admission;
  // one token at least is computed here.
  std::int64_t loaded_tokens = 0;
  std::int64_t max_tokens = 0;  // most tokens the reply may have; 0: the prompt is computed, nothing is sampled
  int priority = 0;
  double arrival_s = 0.0;
  std::string cache_salt;
  bool use_prefix_cache = true;  // false: everything is computed (prompt logprobs need every row)
};

struct ScheduledRange {
  SeqId id{};
  std::int64_t begin = 0, end = 0;  // tokens [begin, end) of the sequence are computed in this step
  // end is all that is known: the last row's logits give the next token. Never with max_tokens 0.
  bool samples = false;
};

struct StepPlan {
  std::vector<ScheduledRange> ranges;
  std::vector<SeqId> preempted;  // in this step
  std::vector<SeqId> admitted;   // left the waiting queue in this step (again, if they were preempted before)
  bool empty() const { return ranges.empty(); }
};

struct SchedulerStats {
  int running = 0, waiting = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t prefix_queries_tokens = 0, prefix_hits_tokens = 0;  // counted at first admission, as vLLM counts them
};

class Scheduler {
 public:
  Scheduler(SchedulerConfig config, kv::KvManager& kv);
  ~Scheduler();

  // Whether a sequence of this size can ever run: kContextLengthExceeded with both numbers, else ok. Reads only the
  // configuration: any thread.
  Status check_fits(std::int64_t prompt_tokens, std::int64_t max_tokens) const;

  void add(NewSequence sequence);  // check_fits() must have accepted it
  // May be called again only after commit(). Before that, finish() what has all its tokens: max_tokens of them (with
  // late_finish one call later), or, with max_tokens 0, the computed prompt. `now_s` is for policies that look at
  // waiting times; none of these does. The plan stays valid until the next call.
  const StepPlan& schedule(double now_s);
  // The planned ranges have been computed. `plan`: what schedule() returned. `sampled`: one token for each range with
  // samples, in plan order; a sequence that is to end with its token is then ended by finish().
  void commit(const StepPlan& plan, std::span<const TokenId> sampled);
  // The sequence leaves, whatever state it is in: finished or cancelled. Not between schedule() and commit().
  void finish(SeqId id);

  // What a simulation may pass over. repetitions(): how many steps after the one in flight would repeat it, the same
  // outlined sequences with one token each, while no block is taken or filled, nobody enters and nobody gets his last
  // token. repeat(n), n <= repetitions(): as n times commit() and schedule().
  std::int64_t repetitions() const;
  void repeat(std::int64_t steps);

  // Prompt and output so far; of an outlined sequence, its outline. Valid until the sequence changes.
  std::span<const TokenId> tokens(SeqId id) const;
  std::int64_t cached_tokens(SeqId id) const;  // prompt tokens found in the prefix cache at first admission
  std::int64_t computed_tokens(SeqId id) const;
  bool contains(SeqId id) const;
  SchedulerStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::sched
