#include "api/work_queue.h"

#include <pthread.h>

#include <utility>
#include <vector>

namespace weir::api {

WorkQueue::WorkQueue(std::string name, std::size_t capacity) : tasks_(capacity), thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

WorkQueue::~WorkQueue() {
  stop();
}

void WorkQueue::stop() {
  tasks_.close();
  if (thread_.joinable()) thread_.join();
}

bool WorkQueue::post(std::function<void()> task) {
  return tasks_.put(std::move(task));
}

void WorkQueue::run() {
  std::vector<std::function<void()>> batch;
  while (tasks_.take_all(batch, true)) {
    for (auto& task : batch) {
      task();
      task = nullptr;  // what it captured must not outlive its turn
    }
  }
}

}  // namespace weir::api
