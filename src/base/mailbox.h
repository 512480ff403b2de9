// Mailbox: many threads put, one takes everything at once.
//
// Bounded: put() refuses when full, so a stalled taker cannot eat the memory. Cost: one short lock per put and per
// take.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace weir {

template <class T>
class Mailbox {
 public:
  explicit Mailbox(std::size_t capacity) : capacity_(capacity) {}

  // False: full, or closed.
  [[nodiscard]] bool put(T message) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || messages_.size() >= capacity_) return false;
      messages_.push_back(std::move(message));
    }
    ready_.notify_one();
    return true;
  }

  // Takes all that is there; with `wait`, sleeps until there is something or the box is closed. `out` is cleared first
  // (its memory is reused). Returns false once the box is closed and empty.
  bool take_all(std::vector<T>& out, bool wait) {
    out.clear();
    std::unique_lock lock(mutex_);
    if (wait) ready_.wait(lock, [&] { return closed_ || !messages_.empty(); });
    std::swap(out, messages_);
    return !(closed_ && out.empty());
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<T> messages_;
  const std::size_t capacity_;
  bool closed_ = false;
};

}  // namespace weir
