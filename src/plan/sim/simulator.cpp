#include "plan/sim/simulator.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <queue>
#include <unordered_map>

#include "base/check.h"
#include "plan/sim/instance.h"
#include "plan/sim/tier_store.h"

namespace weir::plan::sim {

namespace {

// What a pool's tables take, some 80 bytes a block, must fit a small machine.
constexpr std::int64_t kMostBlocks = 1 << 26;
constexpr int kMostInstances = 4096;

// A sequence that decodes slows its instance as so many tokens to read do, when loads are compared: about what a long
// text's KV costs against the prefill of a token. Only the order of loads matters.
constexpr std::int64_t kSequenceTokens = 128;

// All instances name blocks alike: names made on one are good on all.
constexpr const char* kModelId = "simulated";

Status check_instance(const InstanceConfig& config, std::string_view which) {
  const auto at_least = [&](std::string_view field, std::int64_t found, std::int64_t least) -> Status {
    if (found >= least) return {};
    return fail_at(std::string(field), ErrorCode::kInvalidArgument, "{}: {} is {}; it must be at least {}", which,
                   field, found, least);
  };
  WEIR_RETURN_IF_ERROR(at_least("max_num_seqs", config.scheduler.max_num_seqs, 1));
  WEIR_RETURN_IF_ERROR(at_least("max_num_batched_tokens", config.scheduler.max_num_batched_tokens, 1));
  WEIR_RETURN_IF_ERROR(at_least("max_model_len", config.scheduler.max_model_len, 0));
  WEIR_RETURN_IF_ERROR(at_least("block_tokens", config.block_tokens, 1));
  WEIR_RETURN_IF_ERROR(at_least("num_blocks", config.num_blocks, 1));
  WEIR_RETURN_IF_ERROR(at_least("groups of KV", static_cast<std::int64_t>(config.windows.size()), 1));
  for (const int window : config.windows) WEIR_RETURN_IF_ERROR(at_least("window", window, 0));
  if (config.state_blocks > 0 && config.scheduler.enable_prefix_caching) {
    return fail_at("enable_prefix_caching", ErrorCode::kInvalidArgument,
                   "{}: a model with recurrent state cannot take up a text in the middle: prefix caching must be off",
                   which);
  }
  const Overheads& o = config.overheads;
  if (!(o.request_s >= 0) || !(o.prompt_token_s >= 0) || !(o.output_s >= 0)) {
    return fail_at("overheads", ErrorCode::kInvalidArgument,
                   "{}: overheads of {} s, {} s a token and {} s; none may be "
                   "less than 0",
                   which, o.request_s, o.prompt_token_s, o.output_s);
  }
  CHECK(config.model != nullptr);
  return {};
}

Status check_cluster(const Cluster& cluster) {
  WEIR_RETURN_IF_ERROR(
      check_instance(cluster.instance, cluster.decode_instances > 0 ? "prefill instances" : "instances"));
  if (cluster.decode_instances > 0) WEIR_RETURN_IF_ERROR(check_instance(cluster.decode, "decode instances"));
  if (cluster.instances < 1 || cluster.decode_instances < 0 || cluster.instances > kMostInstances ||
      cluster.decode_instances > kMostInstances) {
    return fail_at("instances", ErrorCode::kInvalidArgument,
                   "{} instances and {} decode instances; 1 to {} are possible", cluster.instances,
                   cluster.decode_instances, kMostInstances);
  }
  const std::int64_t blocks = cluster.instances * std::int64_t{cluster.instance.num_blocks} +
                              cluster.decode_instances * std::int64_t{cluster.decode.num_blocks};
  if (blocks > kMostBlocks) {
    return fail_at("num_blocks", ErrorCode::kInvalidArgument,
                   "{} KV blocks over all instances; {} can be simulated. Use larger blocks", blocks, kMostBlocks);
  }
  if (!(cluster.handover.bytes_s >= 0) || !(cluster.handover.latency_s >= 0) || cluster.handover.layers < 1) {
    return fail_at("handover", ErrorCode::kInvalidArgument, "a hand-over at {} bytes/s after {} s in {} layers",
                   cluster.handover.bytes_s, cluster.handover.latency_s, cluster.handover.layers);
  }
  for (const Tier& tier : cluster.tiers) {
    if (!(tier.capacity_bytes >= 0) || !(tier.read_bytes_s > 0) || !(tier.latency_s >= 0) ||
        !(cluster.kv_bytes_per_token > 0)) {
      return fail_at(
          "tier", ErrorCode::kInvalidArgument,
          "tier {}: {} bytes, {} bytes/s, {} s, {} bytes of KV a token; it needs a size, a bandwidth and what "
          "a token takes",
          tier.name, tier.capacity_bytes, tier.read_bytes_s, tier.latency_s, cluster.kv_bytes_per_token);
    }
  }
  return {};
}

struct Event {
  enum class Kind { kSend, kEnter, kHandOver };
  double at_s = 0;
  std::uint64_t number = 0;  // decides between equal times
  Kind kind = Kind::kSend;
  std::uint32_t request = 0;
  int instance = 0;

  friend bool operator>(const Event& a, const Event& b) {
    return a.at_s != b.at_s ? a.at_s > b.at_s : a.number > b.number;
  }
};

class Simulation {
 public:
  Simulation(const Cluster& cluster, const Workload& workload);
  Result<SimResult> run();

 private:
  int prefill() const { return cluster_.instances; }
  bool disaggregated() const { return cluster_.decode_instances > 0; }
  bool closed() const { return workload_.concurrency > 0; }
  std::span<Instance> decoders() { return std::span(instances_).subspan(static_cast<std::size_t>(prefill())); }

  double next_arrival_s() const;
  double next_outside_s() const;
  std::size_t earliest() const;
  double horizon_s(std::size_t instance) const;
  void start_all();
  void next_event();
  void at(double at_s, Event::Kind kind, std::uint32_t request, int instance);

  void send(std::uint32_t request);
  bool fits(std::uint32_t request);
  int choose(std::span<Instance> among, const Request& request, std::span<const TokenId> outline,
             kv::PrefixNames& names);
  double fetch(int chosen, const Request& request, Instance::Entry& entry, double ready_s);
  TierStore& tiers_of(int instance) { return stores_[stores_.size() == 1 ? 0 : static_cast<std::size_t>(instance)]; }
  void enter(std::uint32_t request, int instance, Instance::Entry entry);
  void end_step(std::size_t index);
  void keep(std::uint32_t request, int instance);
  void hand_over(std::uint32_t request, int from);
  void receive(std::uint32_t request, int instance);
  void gone(std::uint32_t request, double client_s);
  void count(int change);
  Result<SimResult> finish();

  const Cluster& cluster_;
  const Workload& workload_;
  std::vector<Instance> instances_;
  std::vector<TierStore> stores_;
  std::vector<double> tier_free_s_;             // by instance, then tier
  std::vector<double> out_free_s_, in_free_s_;  // links, by instance
  std::vector<std::int64_t> read_, decoded_;    // requests that were sent to each instance for that
  std::vector<Live> live_;
  std::unordered_map<std::uint32_t, Instance::Entry> on_the_way_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::size_t> to_start_;
  Instance::Ended ended_;
  SimResult result_;
  double now_s_ = 0, counted_s_ = 0;
  std::int64_t in_system_ = 0;
  std::uint64_t events_made_ = 0;
  std::uint32_t cursor_ = 0;  // next request to be sent
  std::size_t next_instance_ = 0, next_decoder_ = 0;
};

Simulation::Simulation(const Cluster& cluster, const Workload& workload) : cluster_(cluster), workload_(workload) {
  for (int i = 0; i < cluster.instances; ++i) instances_.emplace_back(cluster.instance, i, kModelId);
  for (int i = 0; i < cluster.decode_instances; ++i) instances_.emplace_back(cluster.decode, prefill() + i, kModelId);
  if (!cluster.tiers.empty()) {
    std::vector<std::int64_t> blocks;
    const double block_bytes = cluster.kv_bytes_per_token * cluster.instance.block_tokens;
    bool shared = true;
    for (const Tier& tier : cluster.tiers) {
      blocks.push_back(static_cast<std::int64_t>(std::min(tier.capacity_bytes / block_bytes, 0x1p40)));
      shared = shared && tier.shared;
    }
    for (int i = 0; i < (shared ? 1 : cluster.instances); ++i) stores_.emplace_back(blocks);
  }
  tier_free_s_.resize(static_cast<std::size_t>(cluster.instances), 0);
  out_free_s_.resize(instances_.size(), 0);
  in_free_s_.resize(instances_.size(), 0);
  read_.resize(static_cast<std::size_t>(cluster.instances), 0);
  decoded_.resize(static_cast<std::size_t>(cluster.decode_instances), 0);
  live_.resize(workload.requests.size());
  result_.requests.resize(workload.requests.size());
}

double Simulation::next_arrival_s() const {
  if (closed() || cursor_ >= workload_.requests.size()) return kNever_s;
  return workload_.requests[cursor_].arrival_s;
}

double Simulation::next_outside_s() const {
  return std::min(next_arrival_s(), events_.empty() ? kNever_s : events_.top().at_s);
}

std::size_t Simulation::earliest() const {
  std::size_t first = 0;
  for (std::size_t i = 1; i < instances_.size(); ++i) {
    if (instances_[i].end_s() < instances_[first].end_s()) first = i;
  }
  return first;
}

// Until then nothing that happens elsewhere can concern the instance.
double Simulation::horizon_s(std::size_t instance) const {
  double horizon = next_outside_s();
  const bool decoder = instance >= static_cast<std::size_t>(prefill());
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    // Replies that end send the next request in a closed loop; prompts that have been read go to decode instances.
    const bool concerns = closed() || (decoder && i < static_cast<std::size_t>(prefill()));
    if (concerns && i != instance) horizon = std::min(horizon, instances_[i].end_s());
  }
  return horizon;
}

void Simulation::start_all() {
  std::sort(to_start_.begin(), to_start_.end());
  to_start_.erase(std::unique(to_start_.begin(), to_start_.end()), to_start_.end());
  std::erase_if(to_start_, [this](std::size_t i) { return !instances_[i].idle() || !instances_[i].has_work(); });
  for (const std::size_t i : to_start_) instances_[i].start(now_s_, result_.requests, live_);
  if (cluster_.in_bulk) {
    for (const std::size_t i : to_start_) {
      result_.steps_in_bulk += instances_[i].skip(horizon_s(i), result_.requests, live_, result_.itl_s);
    }
  }
  to_start_.clear();
}

void Simulation::at(double at_s, Event::Kind kind, std::uint32_t request, int instance) {
  CHECK(at_s >= now_s_, "an event at {} made at {}", at_s, now_s_);
  events_.push({at_s, events_made_++, kind, request, instance});
}

void Simulation::next_event() {
  if (next_arrival_s() <= (events_.empty() ? kNever_s : events_.top().at_s)) return send(cursor_++);
  const Event event = events_.top();
  events_.pop();
  switch (event.kind) {
    case Event::Kind::kSend:
      return send(event.request);
    case Event::Kind::kHandOver:
      return receive(event.request, event.instance);
    case Event::Kind::kEnter:
      break;
  }
  auto node = on_the_way_.extract(event.request);
  enter(event.request, event.instance, std::move(node.mapped()));
}

Result<SimResult> Simulation::run() {
  if (closed()) {
    const auto first =
        std::min<std::size_t>(static_cast<std::size_t>(workload_.concurrency), workload_.requests.size());
    for (; cursor_ < first; ++cursor_) at(0, Event::Kind::kSend, cursor_, 0);
  } else {
    now_s_ = counted_s_ = std::min(0.0, workload_.requests.front().arrival_s);
  }
  while (true) {
    const double outside_s = next_outside_s();
    const std::size_t first = earliest();
    const double next_s = std::min(outside_s, instances_[first].end_s());
    if (next_s > now_s_ && !to_start_.empty()) {
      start_all();
      continue;
    }
    if (next_s == kNever_s) break;
    CHECK(next_s >= now_s_, "the clock would go back from {} to {}", now_s_, next_s);
    now_s_ = next_s;
    if (outside_s <= instances_[first].end_s()) {
      next_event();
    } else {
      end_step(first);
      if (instances_[first].broken()) {
        return fail(ErrorCode::kInvalidArgument,
                    "the step model gave a step of instance {} a time that is negative or no "
                    "number, at {:.3f} s",
                    first, now_s_);
      }
    }
  }
  return finish();
}

void Simulation::count(int change) {
  result_.in_system_s += static_cast<double>(in_system_) * (now_s_ - counted_s_);
  counted_s_ = now_s_;
  in_system_ += change;
}

// Whether it can ever run where it would have to.
bool Simulation::fits(std::uint32_t number) {
  const Request& request = workload_.requests[number];
  const bool moves = disaggregated() && request.output_tokens > 1;
  if (!instances_.front().check_fits(request.prompt_tokens, moves ? 1 : request.output_tokens)) return false;
  return !moves || instances_.back().check_fits(request.prompt_tokens + 1, request.output_tokens - 1).has_value();
}

void Simulation::send(std::uint32_t number) {
  const Request& request = workload_.requests[number];
  RequestResult& result = result_.requests[number];
  result.sent_s = now_s_;
  if (!fits(number)) {
    result.refused = true;
    if (closed() && cursor_ < workload_.requests.size())
      at(now_s_ + workload_.think_s, Event::Kind::kSend, cursor_++, 0);
    return;
  }
  count(1);
  result_.prompt_tokens += static_cast<double>(request.prompt_tokens);
  const std::span<Instance> readers = std::span(instances_).first(static_cast<std::size_t>(prefill()));
  Instance::Entry entry;
  entry.id = SeqId{number};
  entry.outline = outline(workload_, number, cluster_.instance.block_tokens);
  entry.prompt_tokens = request.prompt_tokens;
  entry.output_tokens = disaggregated() ? std::min<std::int64_t>(request.output_tokens, 1) : request.output_tokens;
  entry.priority = request.priority;
  const int chosen = choose(readers, request, entry.outline, entry.names);
  result.instance = chosen;
  const Overheads& overheads = cluster_.instance.overheads;
  double ready_s = now_s_ + overheads.request_s + overheads.prompt_token_s * static_cast<double>(request.prompt_tokens);
  if (!stores_.empty()) ready_s = fetch(chosen, request, entry, ready_s);
  if (ready_s == now_s_) return enter(number, chosen, std::move(entry));
  on_the_way_.emplace(number, std::move(entry));
  at(ready_s, Event::Kind::kEnter, number, chosen);
}

// Round robin; or the instance with the least to read before the request's first token, less what it has of the prompt
// where prefixes count. Of equal ones, that which has had the fewest requests: its pool holds the least.
int Simulation::choose(std::span<Instance> among, const Request& request, std::span<const TokenId> outline,
                       kv::PrefixNames& names) {
  const bool reads = among.data() == instances_.data();
  std::size_t& next = reads ? next_instance_ : next_decoder_;
  std::vector<std::int64_t>& had = reads ? read_ : decoded_;
  std::size_t best = 0;
  if (cluster_.routing == Routing::kRoundRobin) {
    best = next++ % among.size();
  } else {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < among.size(); ++i) {
      std::int64_t load = among[i].unread_tokens() + kSequenceTokens * among[i].sequences();
      if (cluster_.routing == Routing::kPrefixAware && among[i].config().scheduler.enable_prefix_caching) {
        load -= among[i].kv().find_prefix({outline, request.prompt_tokens}, "", names).tokens;
      }
      if (load < least || (load == least && had[i] < had[best])) {
        least = load;
        best = i;
      }
    }
  }
  ++had[best];
  return static_cast<int>(best);
}

// Fetches what the tiers have of the prompt beyond what the pool has, if that is faster than computing it. When the
// request can enter.
double Simulation::fetch(int chosen, const Request& request, Instance::Entry& entry, double ready_s) {
  const Instance& instance = instances_[static_cast<std::size_t>(chosen)];
  const std::int64_t block = cluster_.instance.block_tokens;
  const kv::Text text{entry.outline, request.prompt_tokens};
  const std::int64_t pooled = instance.kv().find_prefix(text, "", entry.names).tokens;
  const std::vector<std::uint64_t> keys = tier_keys(entry.outline, (request.prompt_tokens - 1) / block);
  const std::vector<std::int64_t> found = tiers_of(chosen).find(keys, static_cast<std::size_t>(pooled / block));
  double fetch_s = 0, bytes = 0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == 0) continue;
    const double from_here = static_cast<double>(found[i] * block) * cluster_.kv_bytes_per_token;
    fetch_s += cluster_.tiers[i].latency_s + from_here / cluster_.tiers[i].read_bytes_s;
    bytes += from_here;
    tokens += found[i] * block;
  }
  if (tokens == 0) return ready_s;
  double& free_s = tier_free_s_[static_cast<std::size_t>(chosen)];
  const double done_s = std::max(ready_s, free_s) + fetch_s;
  StepShape recomputed;
  recomputed.add(pooled, pooled + tokens, false);
  if (done_s - ready_s >= instance.model().step_s(recomputed)) return ready_s;
  free_s = done_s;
  result_.fetched_bytes += bytes;
  result_.fetches += 1;
  entry.loaded_tokens = pooled + tokens;
  return done_s;
}

void Simulation::enter(std::uint32_t number, int instance, Instance::Entry entry) {
  instances_[static_cast<std::size_t>(instance)].enter(std::move(entry), now_s_, live_[number]);
  to_start_.push_back(static_cast<std::size_t>(instance));
}

void Simulation::end_step(std::size_t index) {
  Instance& instance = instances_[index];
  instance.end(result_.requests, live_, result_.itl_s, ended_);
  result_.end_s = now_s_;
  const bool reads = index < static_cast<std::size_t>(prefill());
  for (const std::uint64_t id : ended_.first) {
    if (reads && !stores_.empty()) keep(static_cast<std::uint32_t>(id), static_cast<int>(index));
  }
  for (const std::uint64_t id : ended_.done) {
    const auto number = static_cast<std::uint32_t>(id);
    if (reads && disaggregated() && workload_.requests[number].output_tokens > 1) {
      hand_over(number, static_cast<int>(index));
    } else {
      gone(number, ended_.client_s);
    }
  }
  if (instance.has_work()) to_start_.push_back(index);
}

// The prompt's full blocks are written into the tiers.
void Simulation::keep(std::uint32_t number, int instance) {
  const std::int64_t block = cluster_.instance.block_tokens;
  tiers_of(instance).put(tier_keys(outline(workload_, number, cluster_.instance.block_tokens),
                                   workload_.requests[number].prompt_tokens / block));
}

// The KV of a prompt that has been read goes to a decode instance. It leaves the pool with the last step (it may be hit
// or evicted from then on) and waits in a buffer for its turn on the links, and on the other side for room.
void Simulation::hand_over(std::uint32_t number, int from) {
  const Request& request = workload_.requests[number];
  kv::PrefixNames names;
  const std::vector<TokenId> text = outline(workload_, number, cluster_.decode.block_tokens);
  const int chosen = choose(decoders(), request, text, names);
  const Instance& to = decoders()[static_cast<std::size_t>(chosen)];
  result_.requests[number].decode_instance = prefill() + chosen;
  std::int64_t there = 0;
  if (to.config().scheduler.enable_prefix_caching) {
    there = to.kv().find_prefix({text, request.prompt_tokens + 1}, "", names).tokens;
  }
  const Handover& handover = cluster_.handover;
  double done_s = now_s_;
  const std::int64_t tokens = request.prompt_tokens - there;
  const double bytes = static_cast<double>(tokens) * cluster_.kv_bytes_per_token;
  if (handover.bytes_s > 0) {
    double& out_free_s = out_free_s_[static_cast<std::size_t>(from)];
    double& in_free_s = in_free_s_[static_cast<std::size_t>(prefill() + chosen)];
    const double from_s = handover.layer_wise ? result_.requests[number].scheduled_s : now_s_;
    done_s = std::max({out_free_s, in_free_s, from_s}) + bytes / handover.bytes_s;
    // The last layer of the last step's tokens leaves at its end.
    const auto last_tokens = std::min<std::int64_t>(tokens, cluster_.instance.scheduler.max_num_batched_tokens);
    const double last_bytes = static_cast<double>(last_tokens) * cluster_.kv_bytes_per_token / handover.layers;
    if (handover.layer_wise) done_s = std::max(done_s, now_s_ + last_bytes / handover.bytes_s);
    out_free_s = in_free_s = done_s;
  }
  done_s += handover.latency_s;
  result_.transferred_bytes += bytes;
  result_.transfer_wait_s += done_s - now_s_;
  at(done_s, Event::Kind::kHandOver, number, prefill() + chosen);
}

void Simulation::receive(std::uint32_t number, int instance) {
  const Request& request = workload_.requests[number];
  Instance::Entry entry;
  entry.id = SeqId{number};
  entry.outline = outline(workload_, number, cluster_.decode.block_tokens);
  entry.prompt_tokens = request.prompt_tokens + 1;
  entry.output_tokens = request.output_tokens - 1;
  entry.loaded_tokens = request.prompt_tokens;
  entry.priority = request.priority;
  enter(number, instance, std::move(entry));
}

void Simulation::gone(std::uint32_t number, double client_s) {
  result_.requests[number].last_s = client_s;
  count(-1);
  result_.in_system_s += client_s - now_s_;  // until the client has its last token
  if (closed() && cursor_ < workload_.requests.size()) {
    at(client_s + workload_.think_s, Event::Kind::kSend, cursor_++, 0);
  }
}

Result<SimResult> Simulation::finish() {
  bool all_refused = true;
  for (std::size_t i = 0; i < result_.requests.size(); ++i) {
    const RequestResult& result = result_.requests[i];
    CHECK(result.refused || result.finished(), "request {} never ended", i);
    all_refused = all_refused && result.refused;
  }
  if (all_refused) {
    const Request& first = workload_.requests.front();
    const Status fits = instances_.front().check_fits(first.prompt_tokens, first.output_tokens);
    if (!fits) return tl::unexpected<Error>(fits.error());
    return fail(ErrorCode::kContextLengthExceeded,
                "no request fits the decode instances: the first has {} and {} tokens", first.prompt_tokens,
                first.output_tokens);
  }
  CHECK(in_system_ == 0 && on_the_way_.empty(), "{} requests in the system", in_system_);
  for (const Instance& instance : instances_) {
    CHECK(instance.sequences() == 0 && instance.unread_tokens() == 0 && instance.kv().stats().in_use == 0,
          "{} sequences, {} tokens to read, {} blocks in use at the end", instance.sequences(),
          instance.unread_tokens(), instance.kv().stats().in_use);
    result_.instances.push_back(instance.result());
  }
  return std::move(result_);
}

}  // namespace

Result<SimResult> simulate(const Cluster& cluster, const Workload& workload) {
  WEIR_RETURN_IF_ERROR(check_cluster(cluster));
  WEIR_RETURN_IF_ERROR(check_workload(workload));
  return Simulation(cluster, workload).run();
}

}  // namespace weir::plan::sim
