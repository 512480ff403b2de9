#include "backend/cpu/ops/attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <new>
#include <numbers>
#include <utility>
#include <vector>

#include "backend/cpu/ops/select.h"
#include "base/check.h"

namespace weir::backend::cpu {
namespace {

// Rows that share one gathered tile: enough that gathering is a small part of the work, few enough that their outputs
// stay in L2.
constexpr int kUnitRows = 48;

// Part of the numerics: changing it changes bits.
constexpr int kRunTokens = 512;
static_assert(kRunTokens % kTileTokens == 0);

// Runs are handed to threads one by one when there are fewer units than this per thread.
constexpr int kUnitsPerThread = 4;

// Floats on cache lines of their own; contents are lost when it grows.
class Floats {
 public:
  Floats() = default;
  ~Floats() { ::operator delete(data_, std::align_val_t{64}); }
  Floats(Floats&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  float* data() const { return data_; }
  float* at_least(std::size_t size) {
    if (size > size_) {
      ::operator delete(data_, std::align_val_t{64});
      data_ = nullptr;
      data_ = static_cast<float*>(::operator new(size * sizeof(float), std::align_val_t{64}));
      std::fill_n(data_, size, 0.0f);
      size_ = size;
    }
    return data_;
  }

 private:
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

// The running result of up to kUnitRows rows. Laid out in one piece: [max | sum | out], each of its parts starting on a
// cache line.
struct Accumulator {
  static std::size_t floats(int padded_dim) { return 2 * kStats + static_cast<std::size_t>(kUnitRows) * padded_dim; }

  explicit Accumulator(float* memory) : max(memory), sum(memory + kStats), out(memory + 2 * kStats) {}
  void reset(int rows, int padded_dim) {
    std::fill_n(max, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, rows, 0.0f);
    std::fill_n(out, static_cast<std::size_t>(rows) * padded_dim, 0.0f);
  }

  static constexpr std::size_t kStats = 64;
  static_assert(kStats >= kUnitRows);
  float *max, *sum, *out;
};

// Some rows of one sequence, for one or several neighbouring KV heads; at most kUnitRows over all heads. Row r of a
// head is query token r / group of the sequence, head r % group of the KV head's group.
struct Unit {
  int sequence = 0;
  int first_head = 0, heads = 0;
  int first_row = 0, rows = 0;  // of each head
  int begin = 0, end = 0;       // positions that some row sees
  int first_run = 0, runs = 0;
  std::int64_t first_partial = 0;  // of its `runs` partial results, when runs are separate tasks

  int all_rows() const { return heads * rows; }
};

// Where the keys of the unit's first head are for the tokens of a tile; [begin, end) of them are seen by some row.
struct TileVectors {
  std::array<const std::byte*, kTileTokens> keys;
  int begin = 0, end = 0;
};

struct Task {
  int unit = 0;
  int run = -1;  // -1: all of the unit's
};

}  // namespace

struct AttentionScratch::Impl {
  struct Worker {
    Floats q, keys, values, run, total;
  };

  std::vector<Worker> workers;
  std::vector<Unit> units;
  std::vector<Task> tasks;
  std::vector<std::atomic<int>> runs_left;  // of each unit
  Floats partials;
};

AttentionScratch::AttentionScratch() : impl_(std::make_unique<Impl>()) {}
AttentionScratch::~AttentionScratch() = default;

namespace {

using Worker = AttentionScratch::Impl::Worker;

class Attention {
 public:
  Attention(ThreadPool& pool, Isa isa, const AttentionCall& call, AttentionScratch::Impl& scratch)
      : pool_(pool), kernels_(op_kernels(isa)), call_(call), scratch_(scratch), kind_(kv_kind(call.kv.dtype)) {
    check_shapes();
    dim_ = call.kv.head_dim;
    padded_dim_ = (dim_ + kPadding - 1) / kPadding * kPadding;
    group_ = call.heads / call.kv.heads;
    vector_bytes_ = tensor::row_bytes(call.kv.dtype, dim_);
    head_bytes_ = call.kv.block_tokens * vector_bytes_;
    // Scores are base-2 logarithms, so that weights are powers of two of them; with a cap the cap carries that factor.
    const bool capped = call.softcap > 0.0f;
    q_scale_ = capped ? call.scale / call.softcap : call.scale * std::numbers::log2e_v<float>;
    cap_ = capped ? call.softcap * std::numbers::log2e_v<float> : 0.0f;
  }

  void run() {
    plan_units();
    plan_tasks();
    if (scratch_.tasks.empty()) return;
    reserve();
    pool_.run([this](int worker, int) {
      Worker& mine = scratch_.workers[static_cast<std::size_t>(worker)];
      for (;;) {
        const std::size_t next = next_task_.fetch_add(1, std::memory_order_relaxed);
        if (next >= scratch_.tasks.size()) return;
        run_task(scratch_.tasks[next], mine);
      }
    });
  }

 private:
  // For every worker, whoever will get tasks this time: a later call of this shape allocates nothing.
  void reserve() {
    if (scratch_.workers.size() < static_cast<std::size_t>(pool_.threads())) {
      scratch_.workers.resize(static_cast<std::size_t>(pool_.threads()));
    }
    for (Worker& worker : scratch_.workers) {
      worker.q.at_least(static_cast<std::size_t>(kUnitRows) * dim_);
      worker.keys.at_least(static_cast<std::size_t>(dim_) * kTileTokens);
      worker.values.at_least(static_cast<std::size_t>(padded_dim_) * kTileTokens);
      worker.run.at_least(Accumulator::floats(padded_dim_));
      worker.total.at_least(Accumulator::floats(padded_dim_));
    }
  }

  void check_shapes() const {
    const KvLayerView& kv = call_.kv;
    const std::size_t sequences = call_.seq_lens.size();
    CHECK(kv.heads > 0 && kv.head_dim > 0 && kv.block_tokens > 0, "{} heads of {}, blocks of {}", kv.heads, kv.head_dim,
          kv.block_tokens);
    CHECK(kv.head_dim % 8 == 0, "head_dim {} is not a multiple of 8", kv.head_dim);
    CHECK(call_.heads > 0 && call_.heads % kv.heads == 0, "{} heads over {} KV heads", call_.heads, kv.heads);
    const std::int64_t width = std::int64_t{call_.heads} * kv.head_dim;
    CHECK(call_.q.cols == width && call_.out.cols == width, "q has {} columns, out {}, not {}", call_.q.cols,
          call_.out.cols, width);
    CHECK(call_.query_starts.size() == sequences + 1, "{} query starts for {} sequences", call_.query_starts.size(),
          sequences);
    CHECK(
        call_.query_starts.front() >= 0 && call_.query_starts.back() <= call_.q.rows && call_.q.rows == call_.out.rows,
        "queries [{}, {}) of {}, out has {}", call_.query_starts.front(), call_.query_starts.back(), call_.q.rows,
        call_.out.rows);
    CHECK(call_.block_tables.rows >= static_cast<std::int64_t>(sequences), "{} block tables for {} sequences",
          call_.block_tables.rows, sequences);
  }

  int query_count(int sequence) const {
    const auto s = static_cast<std::size_t>(sequence);
    return call_.query_starts[s + 1] - call_.query_starts[s];
  }

  // Row r of a sequence sees positions [row_begin, row_end).
  int row_end(int sequence, int row) const {
    return call_.seq_lens[static_cast<std::size_t>(sequence)] - query_count(sequence) + row / group_ + 1;
  }
  int row_begin(int sequence, int row) const {
    return call_.window > 0 ? std::max(0, row_end(sequence, row) - call_.window) : 0;
  }

  // With few rows per head reading KV is what takes time, and the heads of a block lie side by side: a unit of several
  // heads reads one long piece per block. But not at the price of idle threads.
  int heads_per_unit(int rows) const {
    int runs = 0;
    for (const std::int32_t length : call_.seq_lens) runs += (length + kRunTokens - 1) / kRunTokens;
    const int wanted =
        (kUnitsPerThread * pool_.threads() + std::max(runs, 1) - 1) / std::max(runs, 1);  // head groups per run
    return std::clamp(std::min(call_.kv.heads / wanted, kUnitRows / rows), 1, call_.kv.heads);
  }

  void plan_units() {
    scratch_.units.clear();
    for (int sequence = 0; sequence < static_cast<int>(call_.seq_lens.size()); ++sequence) {
      const int queries = query_count(sequence);
      const int length = call_.seq_lens[static_cast<std::size_t>(sequence)];
      CHECK(queries >= 0 && queries <= length, "{} queries in a sequence of {}", queries, length);
      if (queries == 0) continue;
      CHECK((length - 1) / call_.kv.block_tokens < call_.block_tables.cols, "{} tokens in {} blocks of {}", length,
            call_.block_tables.cols, call_.kv.block_tokens);
      const int rows = queries * group_;
      const int tiles = (rows + kUnitRows - 1) / kUnitRows;
      const int heads = heads_per_unit(std::min(rows, kUnitRows));
      // The last rows see most: they come first, so that the threads finish together.
      for (int tile = tiles - 1; tile >= 0; --tile) {
        for (int head = 0; head < call_.kv.heads; head += heads) {
          Unit unit;
          unit.sequence = sequence;
          unit.first_head = head;
          unit.heads = std::min(heads, call_.kv.heads - head);
          unit.first_row = tile * kUnitRows;
          unit.rows = std::min(kUnitRows, rows - unit.first_row);
          unit.begin = row_begin(sequence, unit.first_row);
          unit.end = row_end(sequence, unit.first_row + unit.rows - 1);
          unit.first_run = unit.begin / kRunTokens;
          unit.runs = (unit.end - 1) / kRunTokens - unit.first_run + 1;
          scratch_.units.push_back(unit);
        }
      }
    }
  }

  void plan_tasks() {
    auto& [workers, units, tasks, runs_left, partials] = scratch_;
    tasks.clear();
    const bool split = pool_.threads() > 1 && static_cast<int>(units.size()) < kUnitsPerThread * pool_.threads();
    if (split && runs_left.size() < units.size()) runs_left = std::vector<std::atomic<int>>(units.size());
    std::int64_t total = 0;
    for (int u = 0; u < static_cast<int>(units.size()); ++u) {
      Unit& unit = units[static_cast<std::size_t>(u)];
      if (!split || unit.runs == 1) {
        tasks.push_back({u, -1});
        continue;
      }
      runs_left[static_cast<std::size_t>(u)].store(unit.runs, std::memory_order_relaxed);
      unit.first_partial = total;
      total += unit.runs;
      for (int run = unit.first_run; run < unit.first_run + unit.runs; ++run) tasks.push_back({u, run});
    }
    partials_ = partials.at_least(static_cast<std::size_t>(total) * Accumulator::floats(padded_dim_));
  }

  Accumulator partial(const Unit& unit, int index) const {
    return Accumulator(partials_ +
                       static_cast<std::size_t>(unit.first_partial + index) * Accumulator::floats(padded_dim_));
  }

  void run_task(const Task& task, Worker& worker) {
    const Unit& unit = scratch_.units[static_cast<std::size_t>(task.unit)];
    const float* q = load_queries(unit, worker);
    Accumulator total(worker.total.data());
    if (task.run < 0) {
      Accumulator run(worker.run.data());
      total.reset(unit.all_rows(), padded_dim_);
      for (int i = 0; i < unit.runs; ++i) {
        attend(unit, unit.first_run + i, q, worker, run);
        merge(unit, run, total);
      }
      return finish(unit, total);
    }
    attend(unit, task.run, q, worker, partial(unit, task.run - unit.first_run));
    // Whoever does the last run sees all the others' and merges.
    if (scratch_.runs_left[static_cast<std::size_t>(task.unit)].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    total.reset(unit.all_rows(), padded_dim_);
    for (int i = 0; i < unit.runs; ++i) merge(unit, partial(unit, i), total);
    finish(unit, total);
  }

  // Of row r of the unit, counted over all its heads.
  std::int64_t token(const Unit& unit, int r) const {
    return call_.query_starts[static_cast<std::size_t>(unit.sequence)] + (unit.first_row + r % unit.rows) / group_;
  }
  std::int64_t column(const Unit& unit, int r) const {
    const int kv_head = unit.first_head + r / unit.rows;
    return (std::int64_t{kv_head} * group_ + (unit.first_row + r % unit.rows) % group_) * dim_;
  }

  const float* load_queries(const Unit& unit, Worker& worker) const {
    float* q = worker.q.data();
    for (int row = 0; row < unit.all_rows(); ++row) {
      const float* from = call_.q.row(token(unit, row)) + column(unit, row);
      for (int d = 0; d < dim_; ++d) q[row * dim_ + d] = from[d] * q_scale_;
    }
    return q;
  }

  // The unit's rows over the positions of one run.
  void attend(const Unit& unit, int run, const float* q, Worker& worker, Accumulator result) const {
    result.reset(unit.all_rows(), padded_dim_);
    std::array<int, kUnitRows> begins, ends;
    const int last = std::min(unit.end, (run + 1) * kRunTokens);
    int start = std::max(unit.begin / kTileTokens * kTileTokens, run * kRunTokens);
    AttentionTile tile;
    tile.kind = kind_;
    tile.dim = dim_;
    tile.padded_dim = padded_dim_;
    tile.rows = unit.rows;
    tile.begin = begins.data();
    tile.end = ends.data();
    tile.cap = cap_;
    tile.keys = worker.keys.data();
    tile.values = worker.values.data();
    const std::int64_t values_offset = call_.kv.heads * head_bytes_;
    TileVectors now, next;
    find_tile(unit, start, now);
    for (; start < last; start += kTileTokens, now = next) {
      if (start + kTileTokens < last) find_tile(unit, start + kTileTokens, next);
      for (int row = 0; row < unit.rows; ++row) {
        const auto r = static_cast<std::size_t>(row);
        begins[r] = std::max(row_begin(unit.sequence, unit.first_row + row) - start, 0);
        ends[r] = std::min(row_end(unit.sequence, unit.first_row + row) - start, kTileTokens);
      }
      tile.used_begin = now.begin;
      tile.used_end = now.end;
      for (int head = 0; head < unit.heads; ++head) {
        tile.stored_keys = {now.keys.data(), head * head_bytes_};
        tile.stored_values = {now.keys.data(), head * head_bytes_ + values_offset};
        const bool last_head = head + 1 == unit.heads;
        const TileVectors& after = last_head && start + kTileTokens < last ? next : now;
        const std::int64_t offset = last_head ? 0 : (head + 1) * head_bytes_;
        tile.next_keys = {after.keys.data(), offset};
        tile.next_values = {after.keys.data(), offset + values_offset};
        const std::int64_t first = std::int64_t{head} * unit.rows;
        tile.q = q + first * dim_;
        tile.max = result.max + first;
        tile.sum = result.sum + first;
        tile.out = result.out + first * padded_dim_;
        kernels_.attention_tile(tile);
      }
    }
  }

  void find_tile(const Unit& unit, int start, TileVectors& tile) const {
    const KvLayerView& kv = call_.kv;
    const std::int32_t* table = call_.block_tables.row(unit.sequence);
    tile.begin = std::max(unit.begin - start, 0);
    tile.end = std::min(unit.end - start, kTileTokens);
    int index = (start + tile.begin) / kv.block_tokens, offset = (start + tile.begin) % kv.block_tokens;
    for (int t = tile.begin; t < tile.end; ++index, offset = 0) {
      const std::int64_t block = table[index];
      CHECK(block >= 0, "block {} of sequence {} is {}", index, unit.sequence, block);
      const std::byte* row = kv.base + block * kv.block_stride + unit.first_head * head_bytes_ + offset * vector_bytes_;
      for (; t < tile.end && offset < kv.block_tokens; ++t, ++offset, row += vector_bytes_) {
        tile.keys[static_cast<std::size_t>(t)] = row;
      }
    }
    const std::byte* seen = tile.keys[static_cast<std::size_t>(tile.begin)];
    std::fill_n(tile.keys.begin(), tile.begin, seen);  // what nobody sees must be readable all the same
    std::fill(tile.keys.begin() + tile.end, tile.keys.end(), seen);
  }

  void merge(const Unit& unit, const Accumulator& run, const Accumulator& total) const {
    kernels_.attention_merge(unit.all_rows(), padded_dim_, run.max, run.sum, run.out, total.max, total.sum, total.out);
  }

  void finish(const Unit& unit, const Accumulator& total) const {
    for (int row = 0; row < unit.all_rows(); ++row) {
      kernels_.attention_finish(dim_, total.sum[row], total.out + std::int64_t{row} * padded_dim_,
                                call_.out.row(token(unit, row)) + column(unit, row));
    }
  }

  ThreadPool& pool_;
  const OpKernels& kernels_;
  const AttentionCall& call_;
  AttentionScratch::Impl& scratch_;
  KvKind kind_;
  int dim_ = 0, padded_dim_ = 0, group_ = 0;
  std::int64_t vector_bytes_ = 0, head_bytes_ = 0;
  float q_scale_ = 0.0f, cap_ = 0.0f;
  float* partials_ = nullptr;
  std::atomic<std::size_t> next_task_ = 0;
};

}  // namespace

void attention(ThreadPool& pool, Isa isa, const AttentionCall& call, AttentionScratch& scratch) {
  Attention(pool, isa, call, *scratch.impl_).run();
}

}  // namespace weir::backend::cpu
