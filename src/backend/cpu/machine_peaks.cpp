#include "backend/cpu/machine_peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>

#include "backend/cpu/memory.h"
#include "backend/cpu/peaks/peaks.h"
#include "base/cpu_info.h"
#include "base/thread_pool.h"

namespace weir::backend::cpu {
namespace {

constexpr std::int64_t kReadBytes = std::int64_t{1} << 30;
constexpr int kTries = 5;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const PeakLoops& loops_for(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return kAvx2Peaks;
    case Isa::kAvx2Vnni:
      return kAvx2VnniPeaks;
    case Isa::kAvx512:
      return kAvx512Peaks;
    case Isa::kAvx512Vnni:
      return kAvx512VnniPeaks;
    case Isa::kAmx:
      return kAmxPeaks;
    default:
      return kScalarPeaks;
  }
}

double best_gops(ThreadPool& pool, double (*loop)(std::int64_t)) {
  if (loop == nullptr) return 0;
  constexpr double kSeconds = 0.01;  // of one try: short enough that some try runs undisturbed
  std::int64_t rounds = 1000;
  for (double elapsed = 0; elapsed < kSeconds / 2;) {
    const double start = now_s();
    loop(rounds);
    elapsed = now_s() - start;
    if (elapsed < kSeconds / 2) rounds *= 2;
  }
  double best = 0;
  for (int i = 0; i < 4 * kTries; ++i) {
    std::atomic<double> operations = 0;
    const double start = now_s();
    pool.run([&](int, int) { operations.fetch_add(loop(rounds)); });
    best = std::max(best, operations / (now_s() - start) * 1e-9);
  }
  return best;
}

double best_read(ThreadPool& pool, const PeakLoops& loops) {
  const std::int64_t share = kReadBytes / pool.threads() / 4096 * 4096;
  const Memory memory(static_cast<std::size_t>(share * pool.threads()));
  const auto* base = reinterpret_cast<const std::uint8_t*>(memory.data());
  pool.run([&](int w, int) { std::memset(memory.data() + w * share, w + 1, static_cast<std::size_t>(share)); });
  double best = 0;
  std::atomic<std::uint64_t> sink = 0;
  for (const int streams : {1, 2, 4, 8}) {
    for (const std::int64_t ahead : {0, 1024, 4096}) {
      for (int i = 0; i < 2; ++i) {
        const double start = now_s();
        pool.run([&](int w, int) { sink ^= loops.read(base + w * share, share, streams, ahead); });
        best = std::max(best, static_cast<double>(share * pool.threads()) / (now_s() - start) * 1e-9);
      }
    }
  }
  return best;
}

}  // namespace

Result<MachinePeaks> measure_machine(int threads) try {
  const int count = threads == 0 ? usable_cores() : threads;
  if (count < 1 || count > 1024)
    return fail_at("threads", ErrorCode::kInvalidArgument, "{} threads asked for; use 1 to 1024", count);
  ThreadPool pool(count);
  MachinePeaks peaks;
  peaks.isa = best_isa();
  peaks.threads = count;
  const PeakLoops& loops = loops_for(peaks.isa);
  const PeakLoops& vectors = peaks.isa == Isa::kAmx ? kAvx512VnniPeaks : loops;
  peaks.f32_gops = best_gops(pool, loops.f32);
  peaks.vector_int8_gops = best_gops(pool, vectors.int8);
  peaks.vector_bf16_gops = best_gops(pool, vectors.bf16);
  peaks.int8_gops = &loops == &vectors ? peaks.vector_int8_gops : best_gops(pool, loops.int8);
  peaks.bf16_gops = &loops == &vectors ? peaks.vector_bf16_gops : best_gops(pool, loops.bf16);
  peaks.read_gb_s = best_read(pool, loops);
  return peaks;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::kInvalidArgument, "the read test needs {} MiB of free memory", kReadBytes >> 20);
}

}  // namespace weir::backend::cpu
