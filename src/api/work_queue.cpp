#include "api/work_queue.h"

#include <pthread.h>

#include <utility>

namespace weir::api {

WorkQueue::WorkQueue(std::string name, std::size_t capacity, int threads) : capacity_(capacity) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { run(); });
    pthread_setname_np(threads_.back().native_handle(), name.substr(0, 15).c_str());
  }
}

WorkQueue::~WorkQueue() {
  stop();
}

void WorkQueue::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  ready_.notify_all();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool WorkQueue::post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_ || tasks_.size() >= capacity_) return false;
    tasks_.push_back(std::move(task));
  }
  ready_.notify_one();
  return true;
}

void WorkQueue::run() {
  while (true) {
    std::function<void()> task;  // what it captured must not outlive its turn
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stopped_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace weir::api
