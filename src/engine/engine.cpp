#include "engine/engine.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/memory_info.h"
#include "engine/kv_sizing.h"
#include "engine/runner.h"
#include "engine/sequence.h"
#include "kv/kv_storage.h"
#include "load/kv_streams.h"

namespace weir::engine {
namespace {

struct Submit {
  std::vector<std::unique_ptr<Sequence>> sequences;
};
struct Cancel {
  SeqId id;
};
using Message = std::variant<Submit, Cancel>;

// Messages that may wait for the engine thread. A step is far shorter than it takes clients to produce this many.
constexpr std::size_t kMailboxMessages = 1 << 16;

// WEIR_PARANOID=1: freed KV is filled with NaN and the pool's books are audited after every step. For tests.
bool paranoid() {
  const char* value = std::getenv("WEIR_PARANOID");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

struct Engine::Impl {
  EngineConfig config;
  EngineInfo info;
  OutputSink sink;
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<backend::Buffer> arena;
  std::unique_ptr<kv::KvManager> kv;
  std::unique_ptr<sched::Scheduler> scheduler;
  std::unique_ptr<Runner> runner;
  bool audit = false;

  Mailbox<Message> mailbox{kMailboxMessages};
  std::atomic<std::uint64_t> next_id{1};
  std::atomic<std::size_t> live{0};  // submitted and not yet ended
  std::thread thread;

  mutable std::mutex stats_mutex;
  EngineStats stats;  // guarded by stats_mutex

  // Engine thread only.
  std::unordered_map<SeqId, std::unique_ptr<Sequence>> sequences;
  std::uint64_t steps = 0, step_tokens = 0;
  std::vector<TokenId> tokens;          // of a step
  std::vector<SequenceOutput> outputs;  // of a step

  Status build(load::ModelFiles& files);
  Status build_kv(const load::ModelFiles& files, tensor::DType kv_dtype, const kv::KvLayout& layout,
                  const KvSizing& sizing);
  void loop();
  void handle(Message& message);
  void step();
  SequenceOutput output_of(Sequence& sequence, double now) const;
  SequenceOutput failure_of(Sequence& sequence, double now) const;
  SequenceOutput accept(const Runner::Sampled& sampled, double now);
  void end(Sequence& sequence);
  void publish_stats();
};

Status Engine::Impl::build_kv(const load::ModelFiles& files, tensor::DType kv_dtype, const kv::KvLayout& layout,
                              const KvSizing& sizing) {
  WEIR_TRY(const kv::PrefixIndexKind index, kv::parse_prefix_index(config.prefix_index));
  arena = backend->allocate(static_cast<std::size_t>(layout.block_bytes) * sizing.num_blocks);
  const kv::KvStorage storage(layout, sizing.num_blocks, arena->data());
  model::KvView view;
  const std::vector<load::KvStream> streams = load::kv_streams(files.spec);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const kv::KvStorage::Slice slice = storage.stream(static_cast<int>(i));
    const int values_in_keys = streams[i].value_dim_in_keys;
    view.streams.push_back({.base = slice.base,
                            .block_stride = slice.block_stride,
                            .block_tokens = layout.block_tokens,
                            .heads = streams[i].heads,
                            .head_dim = streams[i].key_dim,
                            .dtype = kv_dtype,
                            .value_dim = values_in_keys > 0 ? values_in_keys : streams[i].value_dim,
                            .values_in_keys = streams[i].value_dim == 0});
    view.group.push_back(layout.place[i].group);
  }
  view.state_base = arena->data();
  view.block_bytes = layout.block_bytes;
  kv::KvConfig kv_config = {.layout = layout,
                            .num_blocks = sizing.num_blocks,
                            .prefix_index = config.enable_prefix_caching ? index : kv::PrefixIndexKind::kNone,
                            .model_id = files.path,
                            .on_copy = [storage](BlockId from, BlockId to) { storage.copy(from, to); }};
  if (audit) {
    kv_config.on_discard = [storage](BlockId block) { storage.poison(block); };
  }
  kv = std::make_unique<kv::KvManager>(std::move(kv_config));
  runner = std::make_unique<Runner>(*backend, *model, std::move(view), files.spec.vocab);
  return {};
}

Status Engine::Impl::build(load::ModelFiles& files) {
  const double start = monotonic_s();
  audit = paranoid();
  backend::cpu::CpuOptions options;
  options.threads = config.threads;
  options.compute = config.exact_compute ? backend::cpu::Compute::kExact : backend::cpu::Compute::kAuto;
  if (!config.isa.empty()) {
    options.isa = backend::cpu::parse_isa(config.isa);
    if (!options.isa) {
      return fail_at("isa", ErrorCode::kInvalidArgument,
                     "--isa '{}' is unknown; use scalar, avx2, avx2-vnni, avx512, avx512-vnni or amx", config.isa);
    }
  }
  WEIR_TRY(backend, backend::cpu::make_cpu_backend(options));
  WEIR_TRY(const tensor::DType kv_dtype, choose_kv_dtype(config.kv_cache_dtype, files.spec.main_dtype));
  if (config.max_model_len > files.spec.context_length) {
    return fail_at(
        "max-model-len", ErrorCode::kInvalidArgument,
        "--max-model-len {} is more than the {} tokens the model was made for; a RoPE scaling of a fixed factor "
        "(linear, yarn) in its configuration stretches that",
        config.max_model_len, files.spec.context_length);
  }
  const kv::KvLayout layout = layout_for(files.spec, kv_dtype, config.block_size);
  WEIR_TRY(const KvSizing sizing, size_kv(config, files.spec, layout, available_memory_bytes()));

  WEIR_TRY(model,
           model::Model::load(files.spec, *files.weights, *backend, {.max_rows = config.max_num_batched_tokens}));
  WEIR_RETURN_IF_ERROR(build_kv(files, kv_dtype, layout, sizing));
  sched::SchedulerConfig scheduling;
  scheduling.max_num_seqs = config.max_num_seqs;
  scheduling.max_num_batched_tokens = config.max_num_batched_tokens;
  scheduling.max_model_len = sizing.max_model_len;
  scheduling.enable_prefix_caching = config.enable_prefix_caching;
  scheduling.long_from = files.spec.long_rope_from();
  if (config.scheduling_policy == "priority") {
    scheduling.policy = sched::Policy::kPriority;
  } else if (config.scheduling_policy != "fcfs") {
    return fail_at("scheduling-policy", ErrorCode::kInvalidArgument,
                   "--scheduling-policy '{}' is not one of fcfs, priority", config.scheduling_policy);
  }
  scheduler = std::make_unique<sched::Scheduler>(scheduling, *kv);

  info = {.backend = backend->describe(),
          .max_model_len = sizing.max_model_len,
          .block_size = config.block_size,
          .num_kv_blocks = sizing.num_blocks,
          .kv_bytes = layout.block_bytes * sizing.num_blocks,
          .weight_bytes = model->weight_bytes(),
          .kv_dtype = std::string(tensor::info(kv_dtype).name),
          .prefix_index = config.enable_prefix_caching ? config.prefix_index : "off",
          .max_num_seqs = config.max_num_seqs,
          .max_num_batched_tokens = config.max_num_batched_tokens,
          .load_s = monotonic_s() - start};
  publish_stats();
  thread = std::thread([this] {
    pthread_setname_np(pthread_self(), "weir-engine");
    loop();
  });
  return {};
}

void Engine::Impl::loop() {
  std::vector<Message> messages;
  for (;;) {
    const bool idle = sequences.empty();
    if (!mailbox.take_all(messages, /*wait=*/idle)) return;
    for (Message& message : messages) handle(message);
    if (!messages.empty()) publish_stats();
    if (!sequences.empty()) step();
  }
}

void Engine::Impl::handle(Message& message) {
  if (auto* submit = std::get_if<Submit>(&message)) {
    for (std::unique_ptr<Sequence>& sequence : submit->sequences) {
      sched::NewSequence fresh;
      fresh.id = sequence->id;
      fresh.prompt = sequence->request.prompt;
      fresh.max_tokens = sequence->request.sampling.max_tokens;
      fresh.priority = sequence->request.priority;
      fresh.arrival_s = sequence->submitted_s;
      fresh.cache_salt = sequence->request.cache_salt;
      fresh.use_prefix_cache = !sequence->wants_prompt_logprobs() && sequence->request.logits == nullptr;
      scheduler->add(std::move(fresh));
      sequences.emplace(sequence->id, std::move(sequence));
    }
    return;
  }
  const auto it = sequences.find(std::get<Cancel>(message).id);
  if (it != sequences.end()) end(*it->second);  // else it ended before the cancellation came
}

// The sequence leaves the scheduler and the engine. The reference is dead afterwards.
void Engine::Impl::end(Sequence& sequence) {
  scheduler->finish(sequence.id);
  sequences.erase(sequence.id);
  live.fetch_sub(1, std::memory_order_relaxed);
}

// What every output of a sequence carries; with the first one, its prompt logprobs.
SequenceOutput Engine::Impl::output_of(Sequence& sequence, double now) const {
  SequenceOutput out;
  out.id = sequence.id;
  out.queued_s = sequence.submitted_s;
  out.scheduled_s = sequence.scheduled_s;
  out.produced_s = now;
  out.cached_tokens = scheduler->cached_tokens(sequence.id);
  if (sequence.wants_prompt_logprobs()) {
    out.prompt_logprobs = std::move(sequence.prompt_logprobs);
    sequence.request.sampling.prompt_logprobs = -1;  // a recomputation after preemption need not make them again
  }
  return out;
}

// The last output of a sequence that cannot go on; the one place that says why in the log.
SequenceOutput Engine::Impl::failure_of(Sequence& sequence, double now) const {
  SequenceOutput out = output_of(sequence, now);
  out.prompt_logprobs.clear();
  out.finish = FinishReason::kError;
  out.error = std::move(sequence.failure);
  spdlog::error("sequence {} ({} prompt tokens, {} sampled): {}: its weights are broken, or its numbers overflow",
                value(sequence.id), sequence.prompt_tokens, sequence.output_tokens, out.error);
  return out;
}

SequenceOutput Engine::Impl::accept(const Runner::Sampled& sampled, double now) {
  Sequence& sequence = *sampled.sequence;
  if (!sequence.failure.empty()) return failure_of(sequence, now);
  SequenceOutput out = output_of(sequence, now);
  sequence.sampler.accept(*sampled.token);
  ++sequence.output_tokens;
  out.tokens.push_back(*sampled.token);
  if (sampled.logprobs) out.logprobs.push_back(*sampled.logprobs);
  out.finish = sequence.finish_reason(*sampled.token, info.max_model_len);
  if (out.finish == FinishReason::kStop) out.stop_token = *sampled.token;
  return out;
}

void Engine::Impl::step() {
  const double planned_s = monotonic_s();
  const sched::StepPlan& plan = scheduler->schedule(planned_s);
  CHECK(!plan.empty(), "{} sequences and no progress", sequences.size());
  publish_stats();  // a first step may be long: who is running shows while it runs
  const double start = monotonic_s();
  const sched::SchedulerStats planned = scheduler->stats();
  const std::uint32_t blocks_in_use = kv->stats().in_use;
  for (const SeqId id : plan.admitted) {
    Sequence& sequence = *sequences.at(id);
    if (sequence.scheduled_s == 0.0) sequence.scheduled_s = start;
  }
  const std::function<Sequence&(SeqId)> find = [this](SeqId id) -> Sequence& { return *sequences.at(id); };
  const std::vector<Runner::Sampled>& sampled = runner->run(plan, *scheduler, *kv, find);

  tokens.clear();
  for (const Runner::Sampled& s : sampled) tokens.push_back(s.token.value_or(0));
  scheduler->commit(plan, tokens);

  const double now = monotonic_s();
  outputs.clear();
  for (const Runner::Sampled& s : sampled) {
    outputs.push_back(accept(s, now));
    if (outputs.back().finish) end(*s.sequence);
  }
  // Sequences that only wanted their prompt read (max_tokens 0) end when all of it is computed; those whose prompt has
  // broken logits where these are wanted, at once.
  for (const sched::ScheduledRange& range : plan.ranges) {
    const auto it = sequences.find(range.id);
    if (it == sequences.end()) continue;
    const bool failed = !it->second->failure.empty();
    const bool read = it->second->request.sampling.max_tokens == 0 && range.end >= it->second->prompt_tokens;
    if (!failed && !read) continue;
    outputs.push_back(failed ? failure_of(*it->second, now) : output_of(*it->second, now));
    if (!failed) outputs.back().finish = FinishReason::kLength;
    end(*it->second);
  }
  ++steps;
  for (const sched::ScheduledRange& range : plan.ranges)
    step_tokens += static_cast<std::uint64_t>(range.end - range.begin);
  if (audit) kv->check_integrity();
  publish_stats();
  if (!outputs.empty()) sink(outputs);
  if (config.on_step) config.on_step({planned_s, now, plan.ranges, planned.running, planned.waiting, blocks_in_use});
}

void Engine::Impl::publish_stats() {
  const sched::SchedulerStats s = scheduler->stats();
  const kv::KvStats k = kv->stats();
  const std::lock_guard lock(stats_mutex);
  stats = {.running = s.running,
           .waiting = s.waiting,
           .kv_usage = k.usage(),
           .kv_blocks = k.capacity,
           .kv_blocks_in_use = k.in_use,
           .preemptions = s.preemptions,
           .prefix_queries_tokens = s.prefix_queries_tokens,
           .prefix_hits_tokens = s.prefix_hits_tokens,
           .steps = steps,
           .step_tokens = step_tokens};
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  impl_->mailbox.close();
  if (impl_->thread.joinable()) impl_->thread.join();
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineConfig& config, load::ModelFiles& files, OutputSink sink) {
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  impl->sink = std::move(sink);
  WEIR_RETURN_IF_ERROR(impl->build(files));
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

const EngineInfo& Engine::info() const {
  return impl_->info;
}

Status Engine::check_fits(std::int64_t prompt_tokens, std::int64_t max_tokens) const {
  return impl_->scheduler->check_fits(prompt_tokens, max_tokens);
}

Result<SeqId> Engine::submit(SequenceRequest request) {
  std::vector<SequenceRequest> one;
  one.push_back(std::move(request));
  WEIR_TRY(const std::vector<SeqId> ids, submit_all(std::move(one)));
  return ids.front();
}

Result<std::vector<SeqId>> Engine::submit_all(std::vector<SequenceRequest> requests) {
  for (const SequenceRequest& request : requests) {
    CHECK(!request.prompt.empty() && request.logits_from >= 1);
    WEIR_RETURN_IF_ERROR(check_fits(static_cast<std::int64_t>(request.prompt.size()), request.sampling.max_tokens));
  }
  const std::size_t count = requests.size();
  const std::size_t before = impl_->live.fetch_add(count);
  const auto refuse = [&] {
    impl_->live.fetch_sub(count);
    return fail(ErrorCode::kOverloaded,
                "the server holds {} sequences and takes at most {}; try again later or raise the queue limit", before,
                impl_->config.max_queued_sequences);
  };
  if (before + count > impl_->config.max_queued_sequences) return refuse();
  Submit submit;
  std::vector<SeqId> ids;
  const double now = monotonic_s();
  for (SequenceRequest& request : requests) {
    ids.push_back(static_cast<SeqId>(impl_->next_id.fetch_add(1)));
    submit.sequences.push_back(std::make_unique<Sequence>(ids.back(), std::move(request), now));
  }
  if (!impl_->mailbox.put(std::move(submit))) return refuse();
  return ids;
}

void Engine::cancel(SeqId id) {
  // A full mailbox means the engine is about to take 65,536 messages; the cancellation must not be lost, so wait for
  // it.
  while (!impl_->mailbox.put(Cancel{id})) {
    if (impl_->mailbox.closed()) return;
    std::this_thread::yield();
  }
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(impl_->stats_mutex);
  return impl_->stats;
}

}  // namespace weir::engine
