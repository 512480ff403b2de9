#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "base/cpu_info.h"

namespace weir {
namespace {

TEST(ThreadPool, RunsEveryPartOnce) {
  for (const int threads : {1, 2, 3, 4, 9}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    std::vector<int> calls(static_cast<std::size_t>(threads));
    for (int round = 0; round < 200; ++round) {
      pool.run([&](int part, int parts) {
        EXPECT_EQ(parts, threads);
        ++calls[static_cast<std::size_t>(part)];  // not atomic: the pool orders the rounds
      });
    }
    for (const int count : calls) EXPECT_EQ(count, 200);
  }
}

TEST(ThreadPool, CallerDoesPartZeroAndSeesTheResults) {
  ThreadPool pool(3);
  const auto caller = std::this_thread::get_id();
  std::vector<std::thread::id> ids(3);
  pool.run([&](int part, int) { ids[static_cast<std::size_t>(part)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], caller);
  for (const auto id : ids) EXPECT_NE(id, std::thread::id());
}

TEST(ThreadPool, PartsHaveThreadsOfTheirOwnWhileTheCallerIsBusy) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> other_came = false;
  std::thread::id other;
  pool.run([&](int part, int) {
    if (part == 1) other = std::this_thread::get_id(), other_came = true;
    while (!other_came) std::this_thread::yield();  // the caller's part does not end before
  });
  EXPECT_NE(other, caller);
}

// With far more threads than cores most come late: the caller then does their parts, each once all the same.
TEST(ThreadPool, TheCallerDoesThePartsOfThreadsThatComeLate) {
  ThreadPool pool(4 * usable_cores() + 3);
  const auto caller = std::this_thread::get_id();
  std::vector<int> calls(static_cast<std::size_t>(pool.threads()));
  int by_caller = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    pool.run([&](int part, int) {
      ++calls[static_cast<std::size_t>(part)];
      if (part != 0 && std::this_thread::get_id() == caller) ++by_caller;
    });
  }
  for (const int count : calls) EXPECT_EQ(count, kRounds);
  EXPECT_GT(by_caller, 0);
}

TEST(ThreadPool, WorksAfterParkingAtAnyMoment) {
  for (const int threads : {2, 5}) {
    ThreadPool pool(threads);
    std::atomic<int> total = 0;
    int expected = 0;
    // Pauses around the spin limit (50 us) hit the moment of parking from both sides.
    for (int round = 0; round < 300; ++round) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(round % 100);
      while (std::chrono::steady_clock::now() < until) {
      }
      pool.run([&](int, int) { total.fetch_add(1); });
      expected += threads;
      ASSERT_EQ(total.load(), expected);
    }
  }
}

TEST(ThreadPool, WaitsForSlowWorkers) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> done = 0;
    pool.run([&](int worker, int) {
      if (worker != 0) std::this_thread::sleep_for(std::chrono::milliseconds(2 * worker));
      done.fetch_add(1);
    });
    EXPECT_EQ(done.load(), 3);
  }
}

TEST(ThreadPool, IsDestroyedWhileSpinningOrParked) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(1 + round % 5);
    if (round % 3 != 0) pool.run([](int, int) {});
    if (round % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ThreadPool, RestsWithoutUsingTheCpu) {
  ThreadPool pool(2);
  pool.run([](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time to park
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 20);
}

TEST(ThreadPool, ManyThreadsOnFewCoresFinish) {
  ThreadPool pool(4 * usable_cores() + 3);
  std::atomic<int> total = 0;
  for (int round = 0; round < 500; ++round) pool.run([&](int, int) { total.fetch_add(1, std::memory_order_relaxed); });
  EXPECT_EQ(total.load(), 500 * pool.threads());
}

}  // namespace
}  // namespace weir
