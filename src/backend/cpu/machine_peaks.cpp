#include "backend/cpu/machine_peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <vector>

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

double median(std::vector<double>& tries) {
  const auto middle = tries.begin() + static_cast<std::ptrdiff_t>(tries.size() / 2);
  std::nth_element(tries.begin(), middle, tries.end());
  return *middle;
}

double sustained_gops(ThreadPool& pool, double (*loop)(std::int64_t)) {
  if (loop == nullptr) return 0;
  constexpr double kSeconds = 0.01;  // of one try
  std::int64_t rounds = 1000;
  for (double elapsed = 0; elapsed < kSeconds / 2;) {
    const double start = now_s();
    loop(rounds);
    elapsed = now_s() - start;
    if (elapsed < kSeconds / 2) rounds *= 2;
  }
  std::vector<double> tries;
  for (int i = 0; i < 4 * kTries; ++i) {
    std::atomic<double> operations = 0;
    const double start = now_s();
    pool.run([&](int, int) { operations.fetch_add(loop(rounds)); });
    tries.push_back(operations / (now_s() - start) * 1e-9);
  }
  return median(tries);
}

// A way of reading: so many sequential streams a thread, lines asked for so many bytes early.
struct ReadPattern {
  int streams;
  std::int64_t ahead;
  std::vector<double> gb_s = {};  // of each try
};

class ReadTest {
 public:
  ReadTest(ThreadPool& pool, const PeakLoops& loops)
      : pool_(pool),
        loops_(loops),
        share_(kReadBytes / pool.threads() / 4096 * 4096),
        memory_(static_cast<std::size_t>(share_ * pool.threads())) {
    pool_.run([&](int w, int) { std::memset(memory_.data() + w * share_, w + 1, static_cast<std::size_t>(share_)); });
  }

  // Which pattern is best differs between machines. Each is tried on parts of the memory, the best ones on all of it.
  double sustained_gb_s() {
    std::vector<ReadPattern> patterns;
    for (const int streams : {1, 2, 4, 8, 16}) {
      for (const std::int64_t ahead : {0, 256, 512, 1024, 2048, 4096}) patterns.push_back({streams, ahead});
    }
    constexpr int kParts = 4;
    const std::int64_t part = share_ / kParts / 4096 * 4096;
    for (std::size_t round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < patterns.size(); ++i)
        time(patterns[i], static_cast<std::int64_t>((i + round) % kParts) * part, part);
    }
    const auto better = [](ReadPattern& a, ReadPattern& b) { return median(a.gb_s) > median(b.gb_s); };
    std::sort(patterns.begin(), patterns.end(), better);
    patterns.resize(4);
    for (ReadPattern& pattern : patterns) pattern.gb_s.clear();
    for (int round = 0; round < kTries; ++round) {
      for (ReadPattern& pattern : patterns) time(pattern, 0, share_);
    }
    return median(std::min_element(patterns.begin(), patterns.end(), better)->gb_s);
  }

 private:
  // Reads `bytes` from `first` on of every thread's share.
  void time(ReadPattern& pattern, std::int64_t first, std::int64_t bytes) {
    const auto* base = reinterpret_cast<const std::uint8_t*>(memory_.data()) + first;
    const double start = now_s();
    pool_.run([&](int w, int) { sink_ ^= loops_.read(base + w * share_, bytes, pattern.streams, pattern.ahead); });
    pattern.gb_s.push_back(static_cast<double>(bytes * pool_.threads()) / (now_s() - start) * 1e-9);
  }

  ThreadPool& pool_;
  const PeakLoops& loops_;
  std::int64_t share_;
  Memory memory_;
  std::atomic<std::uint64_t> sink_ = 0;
};

}  // namespace

void MachinePeaks::take_better(const MachinePeaks& other) {
  for (double MachinePeaks::* figure :
       {&MachinePeaks::read_gb_s, &MachinePeaks::int8_gops, &MachinePeaks::bf16_gops, &MachinePeaks::f32_gops,
        &MachinePeaks::vector_int8_gops, &MachinePeaks::vector_bf16_gops})
    this->*figure = std::max(this->*figure, other.*figure);
}

Result<MachinePeaks> measure_machine(int threads, std::optional<Isa> isa) try {
  WEIR_TRY(const Isa level, choose_isa(isa));
  const int count = threads == 0 ? usable_cores() : threads;
  if (count < 1 || count > 1024)
    return fail_at("threads", ErrorCode::kInvalidArgument, "{} threads asked for; use 1 to 1024", count);
  ThreadPool pool(count);
  MachinePeaks peaks;
  peaks.isa = level;
  peaks.threads = count;
  const PeakLoops& loops = loops_for(peaks.isa);
  const PeakLoops& vectors = peaks.isa == Isa::kAmx ? kAvx512VnniPeaks : loops;
  peaks.f32_gops = sustained_gops(pool, loops.f32);
  peaks.vector_int8_gops = sustained_gops(pool, vectors.int8);
  peaks.vector_bf16_gops = sustained_gops(pool, vectors.bf16);
  peaks.int8_gops = &loops == &vectors ? peaks.vector_int8_gops : sustained_gops(pool, loops.int8);
  peaks.bf16_gops = &loops == &vectors ? peaks.vector_bf16_gops : sustained_gops(pool, loops.bf16);
  peaks.read_gb_s =
      ReadTest(pool, loops_for(best_isa())).sustained_gb_s();  // the machine's, whatever kernels make of it
  return peaks;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::kInvalidArgument, "the read test needs {} MiB of free memory", kReadBytes >> 20);
}

}  // namespace weir::backend::cpu
