#include "sched/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace weir::sched {

namespace {

// Room kept for a reply from the start, so that steps do not allocate; longer ones grow as they go.
constexpr std::int64_t kReservedTokens = 1 << 14;

// First letters of salts, that tell the cached blocks of long sequences from those of short ones.
constexpr char kShort = 's', kLong = 'l';

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct Sequence {
  SeqId id{};
  std::vector<TokenId> tokens;  // prompt and output, or an outline of them
  std::int64_t known = 0;       // tokens of prompt and output
  std::int64_t prompt_tokens = 0;
  std::int64_t max_tokens = 0;
  std::int64_t computed = 0;
  std::int64_t cached = 0;  // of the prompt, at first admission
  std::int64_t loaded = 0;  // comes from elsewhere at the next admission
  std::int64_t room = 0;    // up to here KvManager need not be asked: no group has a window and there are blocks
  std::int64_t full = 0;    // when so many are computed the next block is full
  int priority = 0;         // 0 for all under kFcfs
  double arrival_s = 0.0;
  std::uint64_t number = 0;  // in order of add(): decides between equal arrivals
  std::string salt;
  bool use_prefix = true;
  bool running = false;
  bool was_admitted = false;
  bool is_long = false;   // more tokens are known than SchedulerConfig::long_from
  bool outdated = false;  // it has become long: what is computed of it does not count any more
  bool outlined = false;
  kv::PrefixNames names;  // while waiting; KvManager has them while running

  kv::Text text() const { return {tokens, known}; }
  std::int64_t output() const { return known - prompt_tokens; }
  bool has_all() const { return max_tokens > 0 && output() >= max_tokens; }
  auto urgency() const { return std::tuple(priority, arrival_s, number); }
};

// Preempted sequences wait before the new ones of their class: they hold results somebody is reading.
struct WaitsBefore {
  static auto key(const Sequence* s) { return std::tuple(s->priority, !s->was_admitted, s->arrival_s, s->number); }
  bool operator()(const Sequence* a, const Sequence* b) const { return key(a) < key(b); }
};

}  // namespace

struct Scheduler::Impl {
  Impl(SchedulerConfig given, kv::KvManager& manager)
      : config(given),
        kv(manager),
        block_tokens(kv.layout().block_tokens),
        windows(std::ranges::any_of(kv.layout().groups, [](const kv::KvGroup& group) { return group.window > 0; })),
        keeps_states(kv.layout().state_blocks > 0 && config.enable_prefix_caching) {
    CHECK(config.max_num_seqs >= 1 && config.max_num_batched_tokens >= 1 && config.max_model_len >= 0,
          "{} sequences, {} tokens per step, {} tokens per sequence", config.max_num_seqs,
          config.max_num_batched_tokens, config.max_model_len);
  }

  // One step being planned.
  struct Step {
    StepPlan plan;
    std::vector<Sequence*> sequences;  // of plan.ranges
    std::int64_t budget = 0;
    bool short_of_blocks = false;  // somebody got less than the budget allowed

    void start(std::int64_t tokens) {
      plan.ranges.clear();
      plan.preempted.clear();
      plan.admitted.clear();
      sequences.clear();
      budget = tokens;
      short_of_blocks = false;
    }
  };

  const Sequence& get(SeqId id) const {
    const auto it = sequences.find(value(id));
    CHECK(it != sequences.end(), "sequence {} is not here", value(id));
    return it->second;
  }

  void plan_running(Step& step);
  void admit(Step& step);
  void drop_outdated();
  bool awaits_finish() const {
    return config.late_finish &&
           std::any_of(sequences.begin(), sequences.end(), [](const auto& entry) { return entry.second.has_all(); });
  }
  void requeue(Sequence& s);
  bool is_long(std::int64_t tokens) const { return config.long_from > 0 && tokens > config.long_from; }
  std::int64_t make_room(Step& step, Sequence& s, std::int64_t want);
  void take(Sequence& s, std::int64_t end);
  void load(Sequence& s);
  void plan_range(Step& step, Sequence& s, std::int64_t end);
  Sequence& victim() const;
  void preempt(Step& step, Sequence& s);

  SchedulerConfig config;
  kv::KvManager& kv;
  std::int64_t block_tokens;
  bool windows;                                           // a group has one
  bool keeps_states;                                      // steps end where KvManager keeps recurrent states
  std::unordered_map<std::uint64_t, Sequence> sequences;  // its elements do not move
  std::vector<Sequence*> running;                         // in order of admission
  std::set<Sequence*, WaitsBefore> waiting;
  std::vector<Sequence*> order;  // plan_running(): running as it was when the step began
  Step step;                     // the last one planned; its vectors are used again
  std::uint64_t added = 0;
  bool in_flight = false;  // between schedule() and commit()
  SchedulerStats stats;
};

Result<Policy> parse_policy(std::string_view name) {
  if (name == "fcfs") return Policy::kFcfs;
  if (name == "priority") return Policy::kPriority;
  return fail_at("scheduling-policy", ErrorCode::kInvalidArgument,
                 "--scheduling-policy '{}' is unknown; it can be fcfs or priority", name);
}

Scheduler::Scheduler(SchedulerConfig config, kv::KvManager& kv) : impl_(std::make_unique<Impl>(config, kv)) {}
Scheduler::~Scheduler() = default;

Status Scheduler::check_fits(std::int64_t prompt_tokens, std::int64_t max_tokens) const {
  if (prompt_tokens < 1) {
    return fail_at("prompt", ErrorCode::kInvalidArgument, "the prompt has no tokens; at least one is needed");
  }
  if (max_tokens < 0) {
    return fail_at("max_tokens", ErrorCode::kInvalidArgument, "max_tokens is {}; it must be at least 0", max_tokens);
  }
  const std::int64_t limit = impl_->config.max_model_len;
  if (limit > 0 && prompt_tokens > limit) {
    return fail_at(
        "prompt", ErrorCode::kContextLengthExceeded,
        "the prompt is {} tokens; the model reads {} (--max-model-len), prompt and reply together. Shorten the prompt",
        prompt_tokens, limit);
  }
  if (limit > 0 && max_tokens > limit - prompt_tokens) {
    return fail_at(
        "max_tokens", ErrorCode::kContextLengthExceeded,
        "the prompt is {} tokens and the reply may have {} (max_tokens); the model reads {} (--max-model-len), prompt "
        "and reply together. Shorten the prompt or ask for at most {} tokens",
        prompt_tokens, max_tokens, limit, limit - prompt_tokens);
  }
  std::int64_t total = 0;
  if (__builtin_add_overflow(prompt_tokens, max_tokens, &total)) {
    return fail_at("max_tokens", ErrorCode::kContextLengthExceeded,
                   "{} prompt tokens and {} more (max_tokens) are too many", prompt_tokens, max_tokens);
  }
  const std::uint32_t needed = impl_->kv.blocks_needed(total, 1);
  if (needed > impl_->kv.capacity()) {
    return fail_at(
        "max_tokens", ErrorCode::kContextLengthExceeded,
        "the prompt is {} tokens and the reply may have {} (max_tokens): that takes {} KV blocks of {} tokens, the "
        "server has {}. Shorten the prompt, lower max_tokens, or start the server with a larger --num-kv-blocks or "
        "--kv-cache-memory",
        prompt_tokens, max_tokens, needed, impl_->kv.layout().block_tokens, impl_->kv.capacity());
  }
  return {};
}

void Scheduler::add(NewSequence sequence) {
  const bool outlined = sequence.outlined_tokens > 0;
  const auto prompt_tokens = outlined ? sequence.outlined_tokens : static_cast<std::int64_t>(sequence.prompt.size());
  const Status fits = check_fits(prompt_tokens, sequence.max_tokens);
  CHECK(fits.has_value(), "sequence {}: {}", value(sequence.id), fits.error().message);
  CHECK(!std::isnan(sequence.arrival_s), "sequence {} arrived at no time", value(sequence.id));
  const auto [it, is_new] = impl_->sequences.try_emplace(value(sequence.id));
  CHECK(is_new, "sequence {} is already here", value(sequence.id));
  Sequence& s = it->second;
  s.id = sequence.id;
  s.tokens = std::move(sequence.prompt);
  s.known = s.prompt_tokens = prompt_tokens;
  s.outlined = outlined;
  s.names = std::move(sequence.names);
  s.loaded = sequence.loaded_tokens;
  s.max_tokens = sequence.max_tokens;
  s.priority = impl_->config.policy == Policy::kPriority ? sequence.priority : 0;
  s.arrival_s = sequence.arrival_s;
  s.number = impl_->added++;
  s.salt = std::move(sequence.cache_salt);
  s.use_prefix = sequence.use_prefix_cache && impl_->config.enable_prefix_caching;
  s.is_long = impl_->is_long(prompt_tokens);
  if (impl_->config.long_from > 0) s.salt.insert(s.salt.begin(), s.is_long ? kLong : kShort);
  impl_->waiting.insert(&s);
}

const StepPlan& Scheduler::schedule(double /*now_s*/) {
  CHECK(!impl_->in_flight, "the step before has not been committed");
  Impl::Step& step = impl_->step;
  step.start(impl_->config.max_num_batched_tokens);
  impl_->drop_outdated();
  impl_->plan_running(step);
  if (step.plan.preempted.empty() && !step.short_of_blocks) impl_->admit(step);
  CHECK(!step.plan.empty() || (impl_->running.empty() && impl_->waiting.empty()) || impl_->awaits_finish(),
        "no progress: {} running, {} waiting, {} of {} KV blocks available", impl_->running.size(),
        impl_->waiting.size(), impl_->kv.available(), impl_->kv.capacity());
  impl_->in_flight = !step.plan.empty();
  return step.plan;
}

// Sequences that have become long give up what was computed of them and wait, before new ones, to begin again.
void Scheduler::Impl::drop_outdated() {
  if (config.long_from == 0) return;
  order = running;
  for (Sequence* s : order) {
    if (!s->outdated) continue;
    requeue(*s);
    s->outdated = false;
    s->is_long = true;
    s->salt.front() = kLong;
    s->names = {};
  }
}

void Scheduler::Impl::plan_running(Step& step) {
  order = running;
  for (Sequence* s : order) {
    if (step.budget == 0) break;
    if (!s->running) continue;  // preempted for somebody before it
    if (config.late_finish && s->has_all()) continue;
    CHECK(s->computed < s->known && s->output() < std::max<std::int64_t>(s->max_tokens, 1),
          "sequence {} has all its tokens ({} of {} computed, {} of {} sampled) and was not finished", value(s->id),
          s->computed, s->known, s->output(), s->max_tokens);
    const std::int64_t want = std::min(s->known - s->computed, step.budget);
    const std::int64_t end = s->computed + want <= s->room ? s->computed + want : make_room(step, *s, want);
    if (!s->running) continue;  // it gave way itself; under kPriority more urgent ones may come after it
    step.short_of_blocks = step.short_of_blocks || end < s->computed + want;
    plan_range(step, *s, end);
  }
}

// Room for up to `want` tokens of a running sequence, at least one; preempts as long as there is none. Returns the end
// of the room, or `computed` if s itself was preempted.
std::int64_t Scheduler::Impl::make_room(Step& step, Sequence& s, std::int64_t want) {
  while (true) {
    const std::int64_t end = kv.reachable(s.id, s.computed, s.computed + want);
    if (end > s.computed) {
      take(s, end);
      return end;
    }
    CHECK(running.size() > 1, "sequence {} does not fit {} KV blocks alone: {} tokens computed", value(s.id),
          kv.capacity(), s.computed);
    Sequence& least_urgent = victim();
    preempt(step, least_urgent);
    if (&least_urgent == &s) return s.computed;
  }
}

// Blocks up to `end`, which is reachable.
void Scheduler::Impl::take(Sequence& s, std::int64_t end) {
  CHECK(kv.extend(s.id, s.computed, end) == kv::Fit::kNow, "sequence {}: room up to {} was promised", value(s.id), end);
  if (!windows) s.room = kv.room(s.id);
}

// Blocks for what comes from elsewhere, at most a step's tokens at a time as windows move on. It is admitted, so all of
// its text has room.
void Scheduler::Impl::load(Sequence& s) {
  const std::int64_t loaded = std::min(s.loaded, s.known - 1);
  while (s.computed < loaded) {
    const std::int64_t most = std::min<std::int64_t>(loaded, s.computed + config.max_num_batched_tokens);
    const std::int64_t end = kv.reachable(s.id, s.computed, most);
    CHECK(end > s.computed, "sequence {} was admitted without room: {} tokens there, {} to come", value(s.id),
          s.computed, loaded);
    take(s, end);
    s.computed = end;
    if (config.enable_prefix_caching) kv.commit(s.id, s.text(), s.computed);
  }
  s.loaded = 0;  // lost if it is preempted
}

void Scheduler::Impl::plan_range(Step& step, Sequence& s, std::int64_t end) {
  if (keeps_states) end = kv.step_end(s.id, s.computed, end);
  step.plan.ranges.push_back({s.id, s.computed, end, end == s.known && s.max_tokens > 0});
  step.sequences.push_back(&s);
  step.budget -= end - s.computed;
}

Sequence& Scheduler::Impl::victim() const {
  if (config.policy == Policy::kFcfs) return *running.back();
  return **std::max_element(running.begin(), running.end(),
                            [](const Sequence* a, const Sequence* b) { return a->urgency() < b->urgency(); });
}

// From running to waiting, with nothing computed.
void Scheduler::Impl::requeue(Sequence& s) {
  kv.free(s.id, &s.names);
  s.computed = s.room = 0;
  s.running = false;
  running.erase(std::find(running.begin(), running.end(), &s));
  waiting.insert(&s);
}

void Scheduler::Impl::preempt(Step& step, Sequence& s) {
  const auto planned = std::find_if(step.plan.ranges.begin(), step.plan.ranges.end(),
                                    [&s](const ScheduledRange& range) { return range.id == s.id; });
  if (planned != step.plan.ranges.end()) {
    step.budget += planned->end - planned->begin;
    step.sequences.erase(step.sequences.begin() + (planned - step.plan.ranges.begin()));
    step.plan.ranges.erase(planned);
  }
  requeue(s);
  step.plan.preempted.push_back(s.id);
  ++stats.preemptions;
}

void Scheduler::Impl::admit(Step& step) {
  while (step.budget > 0 && !step.short_of_blocks && !waiting.empty() &&
         running.size() < static_cast<std::size_t>(config.max_num_seqs)) {
    Sequence& s = **waiting.begin();
    if (config.late_finish && s.has_all()) break;  // preempted while it waited for finish()
    const kv::PrefixHit hit = s.use_prefix ? kv.find_prefix(s.text(), s.salt, s.names) : kv::PrefixHit{};
    // Everybody running has been given room for all its known text, or the budget would be used up; so what is
    // available is for s.
    const std::int64_t step_tokens = running.empty() ? 1 : config.max_num_batched_tokens;
    if (kv.blocks_needed(s.known, step_tokens) > kv.available() + hit.shared_blocks) break;

    waiting.erase(waiting.begin());
    const std::int64_t expected = s.prompt_tokens + std::min(s.max_tokens, kReservedTokens);
    if (!s.outlined) s.tokens.reserve(static_cast<std::size_t>(expected));
    s.computed = kv.begin(s.id, s.text(), s.salt, s.use_prefix, &s.names, std::max(expected, s.known));
    if (!s.was_admitted) {
      s.cached = s.computed;
      if (s.use_prefix) {
        stats.prefix_queries_tokens += static_cast<std::uint64_t>(s.prompt_tokens);
        stats.prefix_hits_tokens += static_cast<std::uint64_t>(s.computed);
      }
    }
    load(s);
    s.full = config.enable_prefix_caching ? (s.computed / block_tokens + 1) * block_tokens : kNever;
    s.was_admitted = true;
    s.running = true;
    running.push_back(&s);
    step.plan.admitted.push_back(s.id);

    const std::int64_t want = std::min(s.known - s.computed, step.budget);
    const std::int64_t end = kv.reachable(s.id, s.computed, s.computed + want);
    CHECK(end > s.computed, "sequence {} was admitted without room: {} tokens cached, room up to {}", value(s.id),
          s.computed, end);
    take(s, end);
    step.short_of_blocks = end < s.computed + want;
    plan_range(step, s, end);
  }
}

void Scheduler::commit(const StepPlan& plan, std::span<const TokenId> sampled) {
  Impl& impl = *impl_;
  CHECK(impl.in_flight || plan.empty(), "there is no step to commit");
  CHECK(plan.empty() || plan.ranges.size() == impl.step.sequences.size(), "{} ranges, {} were planned",
        plan.ranges.size(), impl.step.sequences.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan.ranges.size(); ++i) {
    const ScheduledRange& range = plan.ranges[i];
    Sequence& s = *impl.step.sequences[i];
    CHECK(s.id == range.id && s.computed == range.begin && range.end <= s.known,
          "sequence {}: [{}, {}) planned; it is sequence {}, {} of {} computed", value(range.id), range.begin,
          range.end, value(s.id), s.computed, s.known);
    s.computed = range.end;
    if (s.computed >= s.full) {
      impl.kv.commit(s.id, s.text(), s.computed);
      s.full = (s.computed / impl.block_tokens + 1) * impl.block_tokens;
    }
    if (!range.samples) continue;
    if (!s.outlined) {
      CHECK(next < sampled.size(), "{} tokens for more ranges", sampled.size());
      s.tokens.push_back(sampled[next++]);
    }
    ++s.known;
    s.outdated = !s.is_long && impl.is_long(s.known);
  }
  CHECK(next == sampled.size(), "{} tokens for {} ranges that sample", sampled.size(), next);
  impl.in_flight = false;
}

std::int64_t Scheduler::repetitions() const {
  const Impl& impl = *impl_;
  const std::size_t slots = static_cast<std::size_t>(impl.config.max_num_seqs);
  const bool nobody_enters = impl.waiting.empty() || impl.running.size() == slots;
  const bool all = impl.step.sequences.size() == impl.running.size();
  if (!impl.in_flight || !nobody_enters || !all || impl.windows || impl.config.long_from > 0) return 0;
  std::int64_t steps = kNever;
  for (std::size_t i = 0; i < impl.step.sequences.size() && steps > 0; ++i) {
    const ScheduledRange& range = impl.step.plan.ranges[i];
    const Sequence& s = *impl.step.sequences[i];
    if (!s.outlined || !range.samples || range.end != range.begin + 1) return 0;
    // After n of them range.end + n tokens are planned and one less computed.
    steps = std::min({steps, s.max_tokens - s.output() - 1, s.room - range.end, s.full - range.end});
  }
  return std::max<std::int64_t>(steps, 0);
}

void Scheduler::repeat(std::int64_t steps) {
  CHECK(steps >= 0 && (steps == 0 || steps <= repetitions()), "{} repetitions of {}", steps, repetitions());
  if (steps == 0) return;
  for (std::size_t i = 0; i < impl_->step.sequences.size(); ++i) {
    ScheduledRange& range = impl_->step.plan.ranges[i];
    Sequence& s = *impl_->step.sequences[i];
    s.computed += steps;
    s.known += steps;
    range.begin += steps;
    range.end += steps;
  }
  impl_->step.plan.admitted.clear();
  impl_->step.plan.preempted.clear();
}

void Scheduler::finish(SeqId id) {
  CHECK(!impl_->in_flight, "sequence {} cannot leave in the middle of a step", value(id));
  const auto it = impl_->sequences.find(value(id));
  CHECK(it != impl_->sequences.end(), "sequence {} is not here", value(id));
  Sequence& s = it->second;
  if (s.running) {
    impl_->kv.free(id);
    impl_->running.erase(std::find(impl_->running.begin(), impl_->running.end(), &s));
  } else {
    impl_->waiting.erase(&s);
  }
  impl_->sequences.erase(it);
}

std::span<const TokenId> Scheduler::tokens(SeqId id) const {
  return impl_->get(id).tokens;
}
std::int64_t Scheduler::cached_tokens(SeqId id) const {
  return impl_->get(id).cached;
}
std::int64_t Scheduler::computed_tokens(SeqId id) const {
  return impl_->get(id).computed;
}
bool Scheduler::contains(SeqId id) const {
  return impl_->sequences.contains(value(id));
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = impl_->stats;
  stats.running = static_cast<int>(impl_->running.size());
  stats.waiting = static_cast<int>(impl_->waiting.size());
  return stats;
}

}  // namespace weir::sched
