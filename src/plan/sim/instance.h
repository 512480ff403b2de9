// Instance: one engine of the simulation: the engine's own scheduler and KV manager, stepped on a virtual clock.
//
// What its owner does: enter() requests whenever they arrive; start() when it is idle() and has work; at end_s() call
// end(), which gives back who got a token, who is done. Between, skip() passes over steps in which nothing but decoding
// happens. Cost: see sim/simulator.h. Threads: none.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "kv/kv_manager.h"
#include "plan/sim/simulator.h"

namespace weir::plan::sim {

inline constexpr double kNever_s = std::numeric_limits<double>::infinity();

// What is kept of a request while it is under way.
struct Live {
  double last_token_s = -1;
  // On the instance it is on:
  std::int64_t prompt_tokens = 0, output_tokens = 0;  // as it entered
  std::int64_t left = 0;                              // tokens it has yet to get
  std::int64_t unread_tokens = 0;                     // of its text
};

class Instance {
 public:
  Instance(const InstanceConfig& config, int number, std::string model_id);

  Instance(Instance&&) = default;

  Status check_fits(std::int64_t prompt_tokens, std::int64_t max_tokens) const {
    return scheduler_->check_fits(prompt_tokens, max_tokens);
  }

  struct Entry {
    SeqId id{};
    std::vector<TokenId> outline;
    kv::PrefixNames names;
    std::int64_t prompt_tokens = 0, output_tokens = 0, loaded_tokens = 0;
    int priority = 0;
  };
  void enter(Entry entry, double now_s, Live& live);

  bool idle() const { return end_s_ == kNever_s; }
  bool has_work() const { return sequences_ > 0; }
  double end_s() const { return end_s_; }

  // Plans and begins a step.
  void start(double now_s, std::span<RequestResult> results, std::span<Live> live);

  struct Ended {
    double client_s = 0;                     // when clients have the step's tokens
    std::vector<std::uint64_t> first, done;  // requests, in the order of the plan: read to the end; at their end here
  };
  // The step ends: tokens are handed out. `ended` is filled anew; those done have left.
  void end(std::span<RequestResult> results, std::span<Live> live, Distribution& itl_s, Ended& ended);

  // Passes over steps that end before `horizon_s`, as long as they are repetitions of the one under way. How many.
  std::int64_t skip(double horizon_s, std::span<RequestResult> results, std::span<Live> live, Distribution& itl_s);

  const kv::KvManager& kv() const { return *kv_; }
  const StepModel& model() const { return *config_.model; }
  const InstanceConfig& config() const { return config_; }
  std::int64_t unread_tokens() const { return unread_tokens_; }
  std::int64_t sequences() const { return sequences_; }
  // The StepModel has said that a step takes less than no time, or no number.
  bool broken() const { return broken_; }
  InstanceResult result() const;

 private:
  void read(const sched::ScheduledRange& range, Live& live);
  void add_token(std::uint64_t id, double now_s, std::span<RequestResult> results, std::span<Live> live,
                 Distribution& itl_s);
  void begin_step(double now_s);

  InstanceConfig config_;
  int number_;
  std::unique_ptr<kv::KvManager> kv_;
  std::unique_ptr<sched::Scheduler> scheduler_;
  const sched::StepPlan* plan_ = nullptr;  // of the step under way
  StepShape shape_;
  double end_s_ = kNever_s;
  std::int64_t unread_tokens_ = 0, sequences_ = 0;
  bool broken_ = false;
  InstanceResult result_;
};

}  // namespace weir::plan::sim
