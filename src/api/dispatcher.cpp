#include "api/dispatcher.h"

#include "api/clock.h"
#include "base/check.h"

namespace weir::api {
namespace {

// Steps and requests that may wait here. Requests are bounded by connections and steps by the engine's pace; a full
// queue means that this thread hangs.
constexpr std::size_t kQueueTasks = 1 << 20;

}  // namespace

Dispatcher::Dispatcher() : queue_("weir-output", kQueueTasks) {}

Dispatcher::~Dispatcher() = default;

void Dispatcher::attach(const ServedModel& model, EngineClient& engine, Metrics& metrics) {
  model_ = &model;
  engine_ = &engine;
  metrics_ = &metrics;
}

void Dispatcher::stop() {
  stopped_ = true;
  queue_.stop();
}

void Dispatcher::post(std::function<void()> task) {
  const bool posted = queue_.post(std::move(task));
  CHECK(posted || stopped_, "the output queue is full");
}

void Dispatcher::start(GenerationJob job) {
  ++active_;
  // std::function copies what it holds; a job is moved.
  auto shared = std::make_shared<GenerationJob>(std::move(job));
  post([this, shared] { submit(std::move(*shared)); });
}

void Dispatcher::on_outputs(std::vector<engine::SequenceOutput>& outputs) {
  auto shared = std::make_shared<std::vector<engine::SequenceOutput>>(std::make_move_iterator(outputs.begin()),
                                                                      std::make_move_iterator(outputs.end()));
  post([this, shared] { process(*shared); });
}

void Dispatcher::give_up_all(Error error) {
  post([this, error = std::move(error)] {
    std::vector<std::shared_ptr<Generation>> all;
    for (const auto& [id, place] : by_sequence_) all.push_back(place.generation);
    for (const auto& generation : all) {
      if (generation->complete()) continue;
      forget(*generation);
      generation->give_up(error, monotonic_s());
      --active_;
    }
  });
}

void Dispatcher::submit(GenerationJob job) {
  const auto generation = std::make_shared<Generation>(*model_, *metrics_, std::move(job));
  auto ids = engine_->submit_all(generation->sequences());
  if (!ids) {
    generation->give_up(ids.error(), monotonic_s());
    --active_;
    return;
  }
  for (std::size_t i = 0; i < ids->size(); ++i) by_sequence_[value((*ids)[i])] = {generation, i};
  generation->submitted(std::move(*ids));
  generation->reply().on_gone([this, weak = std::weak_ptr(generation)] {
    post([this, weak] {
      const auto left = weak.lock();
      if (!left || left->complete()) return;
      forget(*left);
      left->client_left(monotonic_s());
      --active_;
    });
  });
}

void Dispatcher::process(std::vector<engine::SequenceOutput>& outputs) {
  const double now_s = monotonic_s();
  for (auto& output : outputs) {
    const auto it = by_sequence_.find(value(output.id));
    if (it == by_sequence_.end()) continue;  // cancelled; it had been computed already
    const Place place = it->second;
    const SeqId id = output.id;
    const bool finished = output.finish.has_value();
    const bool cancel = place.generation->take(place.choice, std::move(output), now_s);
    if (cancel) engine_->cancel(id);
    if (cancel || finished) by_sequence_.erase(it);
    if (touched_.empty() || touched_.back() != place.generation) touched_.push_back(place.generation);
  }
  for (const auto& generation : touched_) {
    if (generation->complete()) continue;  // touched twice
    generation->flush(now_s);
    if (generation->complete()) {
      forget(*generation);
      --active_;
    }
  }
  touched_.clear();
}

// Cancels what still runs of a request.
void Dispatcher::forget(Generation& generation) {
  for (const SeqId id : generation.ids()) {
    if (by_sequence_.erase(value(id)) != 0) engine_->cancel(id);
  }
}

}  // namespace weir::api
