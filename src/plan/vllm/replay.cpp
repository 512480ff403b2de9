#include "plan/vllm/replay.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "base/check.h"
#include "kv/kv_manager.h"
#include "plan/vllm/step_time.h"
#include "sched/scheduler.h"

namespace weir::plan::vllm {

namespace {

// vLLM publishes the ranks' counts to the client at most this often (its DP coordinator's default).
constexpr double kCountsEvery_s = 0.1;
constexpr double kWaitingWeight = 4;  // of a waiting request against a running one, in the choice of a rank

struct Rank {
  std::unique_ptr<kv::KvManager> kv;
  std::unique_ptr<sched::Scheduler> scheduler;
  std::deque<std::size_t> inbox;              // sent, not yet read
  sched::SchedulerStats seen;                 // when the last step ended
  double sent_waiting = 0, sent_running = 0;  // as the client knows them
};

// A step under way: who gets a token of it on which rank.
struct Step {
  double end_s = 0;
  std::vector<std::vector<std::size_t>> sampled;
};

class Engine {
 public:
  Engine(const Run& run, double load_factor) : run_(run), time_(run, load_factor) {}

  Status start() {
    WEIR_TRY(const std::int64_t device_blocks, kv_blocks(run_));
    // More than all requests together need would only take memory.
    std::int64_t useful = 2;
    for (const Request& request : run_.requests) {
      useful += (request.input_tokens + request.output_tokens) / run_.engine.block_tokens + 2;
    }
    const std::int64_t blocks = std::min(device_blocks, useful);
    for (int i = 0; i < run_.engine.dp; ++i) ranks_.push_back(make_rank(blocks));
    for (const Request& request : run_.requests) {
      const Status fits = ranks_.front().scheduler->check_fits(request.input_tokens, request.output_tokens);
      if (!fits) {
        return fail(ErrorCode::kInvalidArgument, "{}: request {}: {}", run_.name, request.id, fits.error().message);
      }
    }
    result_.times.resize(run_.requests.size());
    tokens_.resize(run_.requests.size(), 0);
    return {};
  }

  Replay go() {
    const std::size_t ahead = run_.engine.asynchronous ? 2 : 1;
    while (done_ < run_.requests.size()) {
      read_requests();
      if (plan_step() && under_way_.size() < ahead) continue;
      if (under_way_.empty()) {
        CHECK(next_ < run_.requests.size(), "{} of {} requests are done and nothing is under way", done_,
              run_.requests.size());
        now_s_ = std::max(now_s_, run_.requests[next_].arrival_s);
      } else {
        end_step();
      }
    }
    for (const Rank& rank : ranks_) {
      result_.preemptions += static_cast<std::int64_t>(rank.scheduler->stats().preemptions);
    }
    return std::move(result_);
  }

 private:
  Rank make_rank(std::int64_t blocks) const {
    kv::KvConfig kv;
    kv.layout.block_tokens = run_.engine.block_tokens;
    kv.layout.groups.push_back({});
    kv.num_blocks = static_cast<std::uint32_t>(blocks - 1);  // vLLM keeps one for padding
    kv.prefix_index = run_.engine.prefix_caching ? kv::PrefixIndexKind::kHash : kv::PrefixIndexKind::kNone;
    kv.ids_per_block = 1;
    sched::SchedulerConfig config;
    config.max_num_seqs = run_.engine.max_num_seqs;
    config.max_num_batched_tokens = run_.engine.max_num_batched_tokens;
    config.enable_prefix_caching = run_.engine.prefix_caching;
    config.late_finish = true;
    Rank rank;
    rank.kv = std::make_unique<kv::KvManager>(std::move(kv));
    rank.scheduler = std::make_unique<sched::Scheduler>(config, *rank.kv);
    return rank;
  }

  void send(std::size_t request) {
    const double tick = std::floor(run_.requests[request].arrival_s / kCountsEvery_s);
    if (tick > counts_tick_) {
      counts_tick_ = tick;
      for (Rank& rank : ranks_) {
        rank.sent_waiting = rank.seen.waiting;
        rank.sent_running = rank.seen.running;
      }
    }
    const auto load = [](const Rank& rank) { return kWaitingWeight * rank.sent_waiting + rank.sent_running; };
    Rank& least = *std::min_element(ranks_.begin(), ranks_.end(),
                                    [&](const Rank& a, const Rank& b) { return load(a) < load(b); });
    least.sent_waiting += 1;
    least.inbox.push_back(request);
  }

  // Sends what has come by now, and lets the ranks read it.
  void read_requests() {
    while (next_ < run_.requests.size() && run_.requests[next_].arrival_s <= now_s_) send(next_++);
    for (Rank& rank : ranks_) {
      for (; !rank.inbox.empty(); rank.inbox.pop_front()) {
        const std::size_t i = rank.inbox.front();
        const Request& request = run_.requests[i];
        sched::NewSequence sequence;
        sequence.id = SeqId{i};
        // Texts are not known: no two requests share one.
        const std::int64_t blocks = (request.input_tokens + request.output_tokens) / run_.engine.block_tokens + 1;
        sequence.prompt.assign(static_cast<std::size_t>(blocks), static_cast<TokenId>(i));
        sequence.outlined_tokens = request.input_tokens;
        sequence.max_tokens = request.output_tokens;
        sequence.arrival_s = request.arrival_s;
        rank.scheduler->add(std::move(sequence));
        result_.times[i].queued_s = now_s_;
      }
    }
  }

  bool plan_step() {
    Step step;
    std::vector<StepShape> shapes(ranks_.size());
    bool works = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const sched::StepPlan& plan = ranks_[r].scheduler->schedule(now_s_);
      std::vector<std::size_t>& sampled = step.sampled.emplace_back();
      for (const sched::ScheduledRange& range : plan.ranges) {
        shapes[r].add(range.begin, range.end, range.samples);
        if (range.samples) sampled.push_back(static_cast<std::size_t>(value(range.id)));
      }
      works = works || !plan.empty();
      if (!plan.empty()) ranks_[r].scheduler->commit(plan, {});
    }
    if (!works) return false;
    device_free_s_ = std::max(now_s_, device_free_s_) + time_.group_step_s(shapes);
    step.end_s = device_free_s_;
    under_way_.push_back(std::move(step));
    ++result_.steps;
    return true;
  }

  // The oldest step under way ends and its tokens are handed out.
  void end_step() {
    const Step step = std::move(under_way_.front());
    under_way_.pop_front();
    now_s_ = std::max(now_s_, step.end_s);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (const std::size_t i : step.sampled[r]) {
        RequestTimes& times = result_.times[i];
        if (tokens_[i]++ == 0) times.first_s = now_s_;
        times.last_s = now_s_;
        if (tokens_[i] < run_.requests[i].output_tokens) continue;
        ranks_[r].scheduler->finish(SeqId{i});
        ++done_;
      }
      ranks_[r].seen = ranks_[r].scheduler->stats();
    }
  }

  const Run& run_;
  StepTime time_;
  std::vector<Rank> ranks_;
  std::deque<Step> under_way_;
  std::vector<std::int64_t> tokens_;  // that each request has got
  Replay result_;
  double now_s_ = 0, device_free_s_ = 0;
  double counts_tick_ = -1;
  std::size_t next_ = 0, done_ = 0;
};

}  // namespace

Result<Replay> replay(const Run& run, double load_factor) {
  Engine engine(run, load_factor);
  WEIR_RETURN_IF_ERROR(engine.start());
  return engine.go();
}

}  // namespace weir::plan::vllm
