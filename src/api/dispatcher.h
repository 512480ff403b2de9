// Dispatcher: the thread between engine and sockets. Requests are submitted here and outputs are turned into text here,
// in order, so the state of a request needs no lock: an output can never overtake the submission that it answers.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include "api/engine_client.h"
#include "api/generation.h"
#include "api/work_queue.h"

namespace weir::api {

class Dispatcher {
 public:
  Dispatcher();
  ~Dispatcher();  // the engine must not call the sink any more

  // Once, before the first start(). All three must outlive the dispatcher's last task.
  void attach(const ServedModel& model, EngineClient& engine, Metrics& metrics);

  // Any thread.
  void start(GenerationJob job);
  // The engine's output sink: hands a step's outputs on and returns.
  void on_outputs(std::vector<engine::SequenceOutput>& outputs);
  // Ends every request that is in progress with this error.
  void give_up_all(Error error);
  // Finishes what is queued and takes nothing more. Outputs that come later are dropped.
  void stop();
  // Requests between start() and the end of their answer.
  int active() const { return active_.load(); }

 private:
  struct Place {
    std::shared_ptr<Generation> generation;  // shared by the sequences of a request
    std::size_t choice = 0;
  };

  void post(std::function<void()> task);
  void submit(GenerationJob job);
  void process(std::vector<engine::SequenceOutput>& outputs);
  void forget(Generation& generation);

  const ServedModel* model_ = nullptr;
  EngineClient* engine_ = nullptr;
  Metrics* metrics_ = nullptr;
  std::unordered_map<std::uint64_t, Place> by_sequence_;
  std::vector<std::shared_ptr<Generation>> touched_;  // by the step being processed
  std::atomic<int> active_{0};
  std::atomic<bool> stopped_{false};
  WorkQueue queue_;  // last: its thread uses all of the above
};

}  // namespace weir::api
