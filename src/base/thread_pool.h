// ThreadPool: fork and join for kernels, with as little latency as the machine allows.
//
// run() wakes every worker, calls task(worker, workers) on each (the caller is worker 0) and returns when all are done.
// Between runs the workers spin for a short while, then park on a futex, so a pool at rest costs nothing and a busy one
// answers in well under a microsecond. When more threads are asked for than cores are usable, they park at once:
// spinning would steal the time of the one that works. Threads: run() from one thread at a time. Nothing allocates
// after construction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace weir {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // >= 1; 1 = everything runs in the caller
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // A function pointer and a context: no allocation, no virtual call.
  using Task = void (*)(void* context, int worker, int workers);
  void run(Task task, void* context);

  // run() over a callable f(worker, workers).
  template <class F>
  void run(F&& f) {
    run([](void* context, int worker,
           int workers) { (*static_cast<std::remove_reference_t<F>*>(context))(worker, workers); },
        &f);
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
