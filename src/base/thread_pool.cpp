#include "base/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/cpu_info.h"

namespace weir {
namespace {

// Two lines: the adjacent-line prefetcher fetches pairs.
constexpr std::size_t kCacheLine = 128;

// Longer than the caller's serial work between two operations, shorter than anything a person would see on a power
// meter.
constexpr std::chrono::microseconds kSpin{50};

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // waits long enough to be useful, which `yield` does not
#endif
}

using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free, "a futex is a plain 32-bit word");

void futex_wait(Word& word, std::uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(Word& word, int count) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// Spins until done() or the time is over; says whether done() held.
template <class Done>
bool spin(std::chrono::microseconds limit, Done done) {
  if (done()) return true;
  if (limit.count() == 0) return false;
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < 16; ++i) {
      pause();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Signals of the process go to the threads that expect them; a worker keeps only those that its own instructions raise
// (and profilers').
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t set;
    sigfillset(&set);
    for (const int synchronous : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF}) sigdelset(&set, synchronous);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

// A run is an epoch. run() fills in the task, sets `running` to the number of parts that are not the caller's, opens
// their claims for this epoch and advances `epoch`. Whoever turns a part's claim from open to taken (a
// compare-exchange: its thread, or the caller once it is free) does the part and counts `running` down; run() returns
// when it sees 0. A thread that comes too late finds its part taken, or open for another epoch than it saw, and looks
// again. The task is read only after a claim, so never while run() fills in the next one: that waits for all claimed
// parts.
//
// Parking is safe because each side announces itself before it looks for the last time, and the other looks for
// announcements after it has published (sequentially consistent, as in Dekker's algorithm): either the sleeper sees the
// new value, which the kernel checks again under its lock, or the waker sees the sleeper.
struct ThreadPool::Impl {
  explicit Impl(int count)
      : threads(count),
        limit(count > usable_cores() ? std::chrono::microseconds{0} : kSpin),
        claims(static_cast<std::size_t>(count)) {
    const BlockSignals blocked;
    workers.reserve(static_cast<std::size_t>(count - 1));
    for (int worker = 1; worker < count; ++worker) {
      workers.emplace_back([this, worker] { work(worker); });
      pthread_setname_np(workers.back().native_handle(), "weir-compute");
    }
  }

  ~Impl() {
    stopping = true;
    publish();
    for (std::thread& worker : workers) worker.join();
  }

  void publish() {
    epoch.fetch_add(1, std::memory_order_seq_cst);
    if (parked.load(std::memory_order_seq_cst) != 0) futex_wake(epoch, INT32_MAX);
  }

  // Whether the caller of this may do the part in the epoch it has seen.
  bool claim(int part, std::uint32_t seen) {
    std::uint32_t open = 2 * seen;
    return claims[static_cast<std::size_t>(part)].word.compare_exchange_strong(open, open + 1,
                                                                               std::memory_order_acq_rel);
  }

  void work(int part) {
    std::uint32_t seen = 0;
    for (;;) {
      const auto advanced = [&] { return epoch.load(std::memory_order_acquire) != seen; };
      if (!spin(limit, advanced)) {
        parked.fetch_add(1, std::memory_order_seq_cst);
        while (epoch.load(std::memory_order_seq_cst) == seen) futex_wait(epoch, seen);
        parked.fetch_sub(1, std::memory_order_relaxed);
      }
      seen = epoch.load(std::memory_order_acquire);
      if (stopping.load(std::memory_order_acquire)) return;
      if (!claim(part, seen)) continue;
      task(context, part, threads);
      if (running.fetch_sub(1, std::memory_order_seq_cst) == 1 && caller_parked.load(std::memory_order_seq_cst) != 0) {
        futex_wake(running, 1);
      }
    }
  }

  void run(Task new_task, void* new_context) {
    task = new_task;
    context = new_context;
    running.store(static_cast<std::uint32_t>(threads - 1), std::memory_order_relaxed);
    const std::uint32_t now = epoch.load(std::memory_order_relaxed) + 1;
    for (std::size_t part = 1; part < claims.size(); ++part)
      claims[part].word.store(2 * now, std::memory_order_release);
    publish();
    task(context, 0, threads);
    for (int part = 1; part < threads; ++part) {
      if (!claim(part, now)) continue;
      task(context, part, threads);
      running.fetch_sub(1, std::memory_order_seq_cst);
    }
    wait_for_workers();
  }

  void wait_for_workers() {
    if (spin(limit, [&] { return running.load(std::memory_order_acquire) == 0; })) return;
    caller_parked.store(1, std::memory_order_seq_cst);
    while (const std::uint32_t left = running.load(std::memory_order_seq_cst)) futex_wait(running, left);
    caller_parked.store(0, std::memory_order_relaxed);
  }

  const int threads;
  const std::chrono::microseconds limit;

  struct alignas(kCacheLine) Claim {
    Word word{1};  // 2 * epoch: open, + 1: taken
  };

  alignas(kCacheLine) Word epoch{0};
  Task task = nullptr;  // with `epoch` on purpose: a worker that sees the epoch has these as well
  void* context = nullptr;
  std::atomic<bool> stopping = false;
  alignas(kCacheLine) Word parked{0};
  alignas(kCacheLine) Word running{0};
  alignas(kCacheLine) Word caller_parked{0};
  std::vector<Claim> claims;  // of each part; the caller's is not used

  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads) {
  CHECK(threads >= 1, "{} threads", threads);
  impl_ = std::make_unique<Impl>(threads);
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const {
  return impl_->threads;
}

void ThreadPool::run(Task task, void* context) {
  if (impl_->threads == 1) return task(context, 0, 1);
  impl_->run(task, context);
}

}  // namespace weir
