// ThreadPool: fork and join for kernels, with as little latency as the machine allows.
//
// run() calls task(part, parts) once for every part in [0, threads) and returns when all are done. The caller does part
// 0; each other part has a thread of its own that does it, unless that thread has not come by the time the caller is
// free: then the caller does it. So a thread that the system keeps from running (other programs need cores too) delays
// nobody, and results that depend only on the part do not depend on who did it. Parts must not wait for each other.
//
// Between runs the threads spin for a short while, then park on a futex, so a pool at rest costs nothing and a busy one
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
  using Task = void (*)(void* context, int part, int parts);
  void run(Task task, void* context);

  // run() over a callable f(part, parts).
  template <class F>
  void run(F&& f) {
    run([](void* context, int part, int parts) { (*static_cast<std::remove_reference_t<F>*>(context))(part, parts); },
        &f);
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
