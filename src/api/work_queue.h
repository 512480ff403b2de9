// WorkQueue: one thread that runs what it is given, in order. Whatever only ever runs on one queue needs no locks.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/mailbox.h"

namespace weir::api {

class WorkQueue {
 public:
  // `capacity`: tasks that may wait; `name` shows in the thread list (15 characters).
  WorkQueue(std::string name, std::size_t capacity);
  ~WorkQueue();  // stop()
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs what was accepted, then joins; refuses everything after. Not from the queue's own thread.
  void stop();

  // Any thread. False: the queue is full or stopped.
  [[nodiscard]] bool post(std::function<void()> task);

 private:
  void run();

  Mailbox<std::function<void()>> tasks_;
  std::thread thread_;
};

}  // namespace weir::api
