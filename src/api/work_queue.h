// WorkQueue: threads that run what they are given, in the order it came. What only ever runs on a queue of one thread
// needs no locks; with more, a long task holds up one thread and the others go on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weir::api {

class WorkQueue {
 public:
  // `capacity`: tasks that may wait; `name` shows in the thread list (15 characters).
  WorkQueue(std::string name, std::size_t capacity, int threads = 1);
  ~WorkQueue();  // stop()
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs what was accepted, then joins; refuses everything after. Not from one of the queue's own threads.
  void stop();

  // Any thread. False: the queue is full or stopped.
  [[nodiscard]] bool post(std::function<void()> task);

 private:
  void run();

  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace weir::api
