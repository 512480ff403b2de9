#include "plan/sim/instance.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace weir::plan::sim {

namespace {

kv::KvConfig kv_config(const InstanceConfig& config, std::string model_id) {
  kv::KvConfig kv;
  kv.layout.block_tokens = config.block_tokens;
  for (const int window : config.windows) kv.layout.groups.push_back({window, {}});
  kv.layout.state_blocks = config.state_blocks;
  kv.num_blocks = config.num_blocks;
  kv.prefix_index = config.scheduler.enable_prefix_caching ? kv::PrefixIndexKind::kHash : kv::PrefixIndexKind::kNone;
  kv.model_id = std::move(model_id);
  kv.ids_per_block = kOutlineIds;
  return kv;
}

}  // namespace

Instance::Instance(const InstanceConfig& config, int number, std::string model_id)
    : config_(config),
      number_(number),
      kv_(std::make_unique<kv::KvManager>(kv_config(config, std::move(model_id)))),
      scheduler_(std::make_unique<sched::Scheduler>(config.scheduler, *kv_)) {}

void Instance::enter(Entry entry, double now_s, Live& live) {
  live.prompt_tokens = live.unread_tokens = entry.prompt_tokens;
  live.output_tokens = live.left = entry.output_tokens;
  unread_tokens_ += live.unread_tokens;
  ++sequences_;
  sched::NewSequence fresh;
  fresh.id = entry.id;
  fresh.prompt = std::move(entry.outline);
  fresh.outlined_tokens = entry.prompt_tokens;
  fresh.names = std::move(entry.names);
  fresh.loaded_tokens = entry.loaded_tokens;
  fresh.max_tokens = entry.output_tokens;
  fresh.priority = entry.priority;
  fresh.arrival_s = now_s;
  scheduler_->add(std::move(fresh));
}

void Instance::start(double now_s, std::span<RequestResult> results, std::span<Live> live) {
  plan_ = &scheduler_->schedule(now_s);
  CHECK(!plan_->empty(), "instance {}: {} sequences and no progress", number_, sequences_);
  for (const SeqId id : plan_->preempted) {
    ++results[value(id)].preemptions;
    Live& sequence = live[value(id)];
    const std::int64_t known = sequence.prompt_tokens + sequence.output_tokens - sequence.left;
    unread_tokens_ += known - sequence.unread_tokens;
    sequence.unread_tokens = known;
  }
  for (const SeqId id : plan_->admitted) {
    RequestResult& result = results[value(id)];
    if (result.scheduled_s < 0) {
      result.scheduled_s = now_s;
      result.cached_tokens = scheduler_->cached_tokens(id);
      result.loaded_tokens = scheduler_->computed_tokens(id) - result.cached_tokens;
    }
    // What was found or loaded need not be read.
    Live& sequence = live[value(id)];
    const std::int64_t there = std::min(scheduler_->computed_tokens(id), sequence.unread_tokens);
    sequence.unread_tokens -= there;
    unread_tokens_ -= there;
  }
  shape_ = {};
  for (const sched::ScheduledRange& range : plan_->ranges) shape_.add(range.begin, range.end, range.samples);
  const sched::SchedulerStats stats = scheduler_->stats();
  result_.most_running = std::max(result_.most_running, stats.running);
  result_.most_waiting = std::max(result_.most_waiting, stats.waiting);
  result_.kv_peak = std::max(result_.kv_peak, kv_->stats().usage());
  begin_step(now_s);
}

// The step under way, of shape_, begins.
void Instance::begin_step(double now_s) {
  double step_s = config_.model->step_s(shape_);
  if (!(step_s >= 0) || !std::isfinite(step_s)) {
    broken_ = true;
    step_s = 0;
  }
  end_s_ = now_s + step_s;
  ++result_.steps;
  result_.tokens += shape_.tokens;
  result_.busy_s += step_s;
  result_.kv_usage_s += step_s * kv_->stats().usage();
}

// Keeps count of what is to be read before tokens come: what routers look at.
void Instance::read(const sched::ScheduledRange& range, Live& live) {
  const std::int64_t unread = std::max<std::int64_t>(0, live.unread_tokens - (range.end - range.begin));
  unread_tokens_ += unread - live.unread_tokens;
  live.unread_tokens = unread;
}

void Instance::add_token(std::uint64_t id, double now_s, std::span<RequestResult> results, std::span<Live> live,
                         Distribution& itl_s) {
  Live& sequence = live[id];
  RequestResult& result = results[id];
  const double gap_s = now_s - sequence.last_token_s;
  itl_s.add(gap_s);
  result.longest_gap_s = std::max(result.longest_gap_s, gap_s);
  sequence.last_token_s = now_s;
  ++result.output_tokens;
  --sequence.left;
}

void Instance::end(std::span<RequestResult> results, std::span<Live> live, Distribution& itl_s, Ended& ended) {
  ended.first.clear();
  ended.done.clear();
  const double now_s = ended.client_s = end_s_ + config_.overheads.output_s;
  for (const sched::ScheduledRange& range : plan_->ranges) {
    const std::uint64_t id = value(range.id);
    Live& sequence = live[id];
    if (sequence.unread_tokens > 0) read(range, sequence);
    if (!range.samples) {
      if (sequence.output_tokens > 0 || range.end < sequence.prompt_tokens) continue;
      results[id].first_s = now_s;  // nothing is wanted but that it be read
      ended.first.push_back(id);
    } else if (sequence.last_token_s >= 0) {
      add_token(id, now_s, results, live, itl_s);
    } else {
      results[id].first_s = sequence.last_token_s = now_s;
      ++results[id].output_tokens;
      --sequence.left;
      ended.first.push_back(id);
    }
    if (sequence.left == 0) ended.done.push_back(id);
  }
  scheduler_->commit(*plan_, {});
  for (const std::uint64_t id : ended.done) {
    scheduler_->finish(SeqId{id});
    --sequences_;
  }
  end_s_ = kNever_s;
  plan_ = nullptr;
}

std::int64_t Instance::skip(double horizon_s, std::span<RequestResult> results, std::span<Live> live,
                            Distribution& itl_s) {
  if (end_s_ >= horizon_s) return 0;
  const std::int64_t most = scheduler_->repetitions();
  if (most == 0) return 0;
  const auto& ranges = plan_->ranges;
  for (const sched::ScheduledRange& range : ranges) {
    const Live& sequence = live[value(range.id)];
    if (sequence.last_token_s < 0 || sequence.unread_tokens > 0) return 0;  // not in the middle of its reply
  }
  const double output_s = config_.overheads.output_s;
  const auto rows = static_cast<std::int64_t>(ranges.size());
  double token_s = end_s_ + output_s, longest_s = 0;
  for (const sched::ScheduledRange& range : ranges) add_token(value(range.id), token_s, results, live, itl_s);
  std::int64_t steps = 0;
  while (true) {  // the tokens of the step under way have been handed out: the next one begins
    shape_.attended += static_cast<double>(rows);
    shape_.decode_attended += static_cast<double>(rows);
    shape_.context_read += static_cast<double>(rows);
    begin_step(end_s_);
    ++steps;
    if (steps == most || end_s_ >= horizon_s) break;
    const double gap_s = end_s_ + output_s - token_s;
    itl_s.add(gap_s, rows);
    longest_s = std::max(longest_s, gap_s);
    token_s = end_s_ + output_s;
  }
  scheduler_->repeat(steps);
  for (const sched::ScheduledRange& range : ranges) {
    Live& sequence = live[value(range.id)];
    RequestResult& result = results[value(range.id)];
    sequence.last_token_s = token_s;
    sequence.left -= steps - 1;
    result.output_tokens += steps - 1;
    result.longest_gap_s = std::max(result.longest_gap_s, longest_s);
  }
  return steps;
}

InstanceResult Instance::result() const {
  InstanceResult result = result_;
  const sched::SchedulerStats stats = scheduler_->stats();
  result.preemptions = stats.preemptions;
  result.prefix_queries_tokens = stats.prefix_queries_tokens;
  result.prefix_hits_tokens = stats.prefix_hits_tokens;
  return result;
}

}  // namespace weir::plan::sim
