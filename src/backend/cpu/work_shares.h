// WorkShares: the items of one fork, each worker's own share of them in its own order. A worker takes its own items
// from the front; one that has none left takes others' from the back. So a worker that the system or the memory keeps
// waiting delays the others by one item, not by its share.
//
// open() for every worker before the fork; take() inside it. Every item is taken once. A few cycles a call while nobody
// helps. Threads: take() from all workers at a time, each with its own number.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace weir::backend::cpu {

class WorkShares {
 public:
  struct Item {
    int owner;  // the worker whose share it is of
    std::int32_t index;
  };

  explicit WorkShares(int workers)
      : workers_(workers), shares_(std::make_unique<Share[]>(static_cast<std::size_t>(workers))) {}

  // Worker w's share: items 0 to count - 1. Not while others take.
  void open(int w, std::int32_t count) { at(w).store(pack(0, count), std::memory_order_relaxed); }

  std::optional<Item> take(int w) {
    if (const std::int32_t index = take_front(w); index >= 0) return Item{w, index};
    for (int other = w + 1; other < w + workers_; ++other) {
      const int owner = other < workers_ ? other : other - workers_;
      if (const std::int32_t index = take_back(owner); index >= 0) return Item{owner, index};
    }
    return std::nullopt;
  }

  // What worker w would take of its own share now, if nobody else did: something to read ahead. Or -1.
  std::int32_t next_own(int w) const {
    const std::uint64_t span = shares_[static_cast<std::size_t>(w)].span.load(std::memory_order_relaxed);
    return front(span) < back(span) ? front(span) : -1;
  }

 private:
  // Two lines: the adjacent-line prefetcher fetches pairs.
  struct alignas(128) Share {
    std::atomic<std::uint64_t> span = 0;  // front, back: what is left
  };

  static std::uint64_t pack(std::int32_t front, std::int32_t back) {
    return static_cast<std::uint64_t>(front) << 32 | static_cast<std::uint32_t>(back);
  }
  static std::int32_t front(std::uint64_t span) { return static_cast<std::int32_t>(span >> 32); }
  static std::int32_t back(std::uint64_t span) { return static_cast<std::int32_t>(span & 0xffffffff); }

  std::atomic<std::uint64_t>& at(int w) { return shares_[static_cast<std::size_t>(w)].span; }

  std::int32_t take_front(int w) {
    std::uint64_t span = at(w).load(std::memory_order_relaxed);
    while (front(span) < back(span)) {
      if (at(w).compare_exchange_weak(span, pack(front(span) + 1, back(span)), std::memory_order_relaxed))
        return front(span);
    }
    return -1;
  }

  std::int32_t take_back(int w) {
    std::uint64_t span = at(w).load(std::memory_order_relaxed);
    while (front(span) < back(span)) {
      if (at(w).compare_exchange_weak(span, pack(front(span), back(span) - 1), std::memory_order_relaxed))
        return back(span) - 1;
    }
    return -1;
  }

  const int workers_;
  std::unique_ptr<Share[]> shares_;
};

}  // namespace weir::backend::cpu
