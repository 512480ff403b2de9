#include "backend/cpu/ops/attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/cpu/ops/kv_vectors.h"
#include "backend/cpu/ops/select.h"
#include "base/check.h"

namespace weir::backend::cpu {
namespace {

// Rows that share one gathered tile: enough that gathering is a small part of the work (and that the 128 heads of a
// DeepSeek layer share one), few enough that queries and outputs stay in L2. Fewer are taken where threads would be
// idle.
constexpr int kUnitRows = 264, kFewestRows = 24;
constexpr int kUnitFloats = 1 << 16, kLeastUnitRows = 132;

// Part of the numerics: changing it changes bits.
constexpr int kRunTokens = 512;
static_assert(kRunTokens % kTileTokens == 0);

// Runs are handed to threads one by one when there are fewer units than this per thread.
constexpr int kUnitsPerThread = 4;

// The running result of some rows. Laid out in one piece: [max | sum | out], each of its parts starting on a cache
// line.
struct Accumulator {
  static std::size_t stats(int rows) { return (static_cast<std::size_t>(rows) + 15) / 16 * 16; }
  static std::size_t floats(int rows, int padded_dim) {
    return 2 * stats(rows) + static_cast<std::size_t>(rows) * static_cast<std::size_t>(padded_dim);
  }

  Accumulator(float* memory, int rows) : max(memory), sum(memory + stats(rows)), out(memory + 2 * stats(rows)) {}
  void reset(int rows, int padded_dim) const {
    std::fill_n(max, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, rows, 0.0f);
    std::fill_n(out, static_cast<std::size_t>(rows) * static_cast<std::size_t>(padded_dim), 0.0f);
  }

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
  std::size_t partials = 0;  // where its `runs` partial results begin, when runs are separate tasks

  int all_rows() const { return heads * rows; }
};

// Where keys and values of the unit's first head are for the tokens of a tile; [begin, end) of them are seen by some
// row.
struct TileVectors {
  std::array<const std::byte*, kTileTokens> keys, values;
  int begin = 0, end = 0;
};

struct Task {
  int unit = 0;
  int run = -1;  // -1: all of the unit's
};

}  // namespace

struct AttentionScratch::Impl {
  struct Worker {
    Memory q, keys, wide_keys, values, run, total;
  };

  std::vector<Worker> workers;
  std::vector<Unit> units;
  std::vector<Task> tasks;
  std::vector<std::atomic<int>> runs_left;  // of each unit
  Memory partials;
};

AttentionScratch::AttentionScratch() : impl_(std::make_unique<Impl>()) {}
AttentionScratch::~AttentionScratch() = default;

namespace {

using Worker = AttentionScratch::Impl::Worker;

class Attention {
 public:
  Attention(ThreadPool& pool, Isa isa, const AttentionCall& call, AttentionScratch::Impl& scratch)
      : pool_(pool), kernels_(op_kernels(isa)), call_(call), scratch_(scratch), kind_(kv_kind(call.kv.dtype)) {
    dim_ = stored_key_dim(call.kv);
    value_dim_ = stored_dim(call.kv.value_size());
    check_shapes();
    padded_dim_ = (value_dim_ + kPadding - 1) / kPadding * kPadding;
    most_rows_ = std::clamp(kUnitFloats / (dim_ + padded_dim_), kLeastUnitRows, kUnitRows);
    group_ = call.heads / call.kv.heads;
    key_bytes_ = tensor::row_bytes(call.kv.dtype, dim_);
    value_bytes_ = call.kv.values_in_keys ? key_bytes_ : tensor::row_bytes(call.kv.dtype, value_dim_);
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
    const auto floats = [](std::size_t rows, int cols) {
      return rows * static_cast<std::size_t>(cols) * sizeof(float);
    };
    const std::size_t pieces = static_cast<std::size_t>((padded_dim_ + kValuePiece - 1) / kValuePiece);
    for (Worker& worker : scratch_.workers) {
      grow(&worker.q, floats(static_cast<std::size_t>(most_rows_), dim_));
      grow(&worker.keys, static_cast<std::size_t>(kTileTokens * key_bytes_));
      grow(&worker.wide_keys, kind_ == KvKind::kF32 ? 0 : floats(kTileTokens, dim_));
      grow(&worker.values, floats(pieces * kTileTokens, kValuePiece));
      grow(&worker.run, Accumulator::floats(most_rows_, padded_dim_) * sizeof(float));
      grow(&worker.total, Accumulator::floats(most_rows_, padded_dim_) * sizeof(float));
    }
  }

  void check_shapes() const {
    const KvLayerView& kv = call_.kv;
    const std::size_t sequences = call_.seq_lens.size();
    CHECK(kv.heads > 0 && kv.head_dim > 0 && kv.block_tokens > 0, "{} heads of {}, blocks of {}", kv.heads, kv.head_dim,
          kv.block_tokens);
    CHECK(kv.value_size() > 0 && (!kv.values_in_keys || kv.value_size() <= kv.head_dim), "values of {} in keys of {}",
          kv.value_size(), kv.head_dim);
    CHECK(call_.heads > 0 && call_.heads % kv.heads == 0, "{} heads over {} KV heads", call_.heads, kv.heads);
    const std::int64_t width = std::int64_t{call_.heads} * kv.head_dim;
    const std::int64_t out_width = std::int64_t{call_.heads} * kv.value_size();
    CHECK(call_.q.cols == width && call_.out.cols == out_width, "q has {} columns, out {}, not {} and {}", call_.q.cols,
          call_.out.cols, width, out_width);
    CHECK(call_.query_starts.size() == sequences + 1, "{} query starts for {} sequences", call_.query_starts.size(),
          sequences);
    CHECK(
        call_.query_starts.front() >= 0 && call_.query_starts.back() <= call_.q.rows && call_.q.rows == call_.out.rows,
        "queries [{}, {}) of {}, out has {}", call_.query_starts.front(), call_.query_starts.back(), call_.q.rows,
        call_.out.rows);
    CHECK(!selects() || (call_.window == 0 && call_.selected.rows >= call_.q.rows), "{} selections for {} queries",
          call_.selected.rows, call_.q.rows);
    CHECK(call_.block_tables.rows >= static_cast<std::int64_t>(sequences), "{} block tables for {} sequences",
          call_.block_tables.rows, sequences);
  }

  bool selects() const { return call_.selected.data != nullptr; }
  const std::int32_t* selected(int sequence, int row) const {
    return call_.selected.row(call_.query_starts[static_cast<std::size_t>(sequence)] + row / group_);
  }
  int selected_count(int sequence, int row) const {
    const std::int32_t* list = selected(sequence, row);
    return static_cast<int>(std::find(list, list + call_.selected.cols, -1) - list);
  }

  int query_count(int sequence) const {
    const auto s = static_cast<std::size_t>(sequence);
    return call_.query_starts[s + 1] - call_.query_starts[s];
  }

  // Row r of a sequence sees positions [row_begin, row_end), or so many of the selected ones.
  int row_end(int sequence, int row) const {
    if (selects()) return selected_count(sequence, row);
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
    return std::clamp(std::min(call_.kv.heads / wanted, most_rows_ / rows), 1, call_.kv.heads);
  }

  // As many as give every thread several units, within limits.
  int rows_per_unit() const {
    const std::int64_t rows =
        std::int64_t{call_.query_starts.back() - call_.query_starts.front()} * group_ * call_.kv.heads;
    return static_cast<int>(
        std::clamp<std::int64_t>(rows / (kUnitsPerThread * pool_.threads()), kFewestRows, most_rows_));
  }

  void plan_units() {
    scratch_.units.clear();
    const int most_rows = rows_per_unit();
    for (int sequence = 0; sequence < static_cast<int>(call_.seq_lens.size()); ++sequence) {
      const int queries = query_count(sequence);
      const int length = call_.seq_lens[static_cast<std::size_t>(sequence)];
      CHECK(queries >= 0 && queries <= length, "{} queries in a sequence of {}", queries, length);
      if (queries == 0) continue;
      CHECK((length - 1) / call_.kv.block_tokens < call_.block_tables.cols, "{} tokens in {} blocks of {}", length,
            call_.block_tables.cols, call_.kv.block_tokens);
      // Rows share a tile only where they look at the same positions: with selections, those of one token.
      const int together = selects() ? 1 : queries;
      for (int query = queries - together; query >= 0; query -= together)
        plan_rows(sequence, query * group_, together * group_, most_rows);
    }
  }

  void plan_rows(int sequence, int first_row, int rows, int most_rows) {
    const int tiles = (rows + most_rows - 1) / most_rows;
    const int tile_rows = (rows + tiles - 1) / tiles;
    const int heads = heads_per_unit(tile_rows);
    // The last rows see most: they come first, so that the threads finish together.
    for (int tile = tiles - 1; tile >= 0; --tile) {
      for (int head = 0; head < call_.kv.heads; head += heads) {
        Unit unit;
        unit.sequence = sequence;
        unit.first_head = head;
        unit.heads = std::min(heads, call_.kv.heads - head);
        unit.first_row = first_row + tile * tile_rows;
        unit.rows = std::min(tile_rows, first_row + rows - unit.first_row);
        unit.begin = row_begin(sequence, unit.first_row);
        unit.end = row_end(sequence, unit.first_row + unit.rows - 1);
        CHECK(unit.begin < unit.end, "a query of sequence {} sees nothing", sequence);
        unit.first_run = unit.begin / kRunTokens;
        unit.runs = (unit.end - 1) / kRunTokens - unit.first_run + 1;
        scratch_.units.push_back(unit);
      }
    }
  }

  void plan_tasks() {
    auto& [workers, units, tasks, runs_left, partials] = scratch_;
    tasks.clear();
    const bool split = pool_.threads() > 1 && static_cast<int>(units.size()) < kUnitsPerThread * pool_.threads();
    if (split && runs_left.size() < units.size()) runs_left = std::vector<std::atomic<int>>(units.size());
    std::size_t total = 0;
    for (int u = 0; u < static_cast<int>(units.size()); ++u) {
      Unit& unit = units[static_cast<std::size_t>(u)];
      if (!split || unit.runs == 1) {
        tasks.push_back({u, -1});
        continue;
      }
      runs_left[static_cast<std::size_t>(u)].store(unit.runs, std::memory_order_relaxed);
      unit.partials = total;
      total += static_cast<std::size_t>(unit.runs) * unit_floats(unit);
      for (int run = unit.first_run; run < unit.first_run + unit.runs; ++run) tasks.push_back({u, run});
    }
    grow(&partials, total * sizeof(float));
  }

  // Whole cache lines.
  std::size_t unit_floats(const Unit& unit) const { return Accumulator::floats(unit.all_rows(), padded_dim_); }
  Accumulator partial(const Unit& unit, int index) const {
    float* memory = floats(scratch_.partials) + unit.partials + static_cast<std::size_t>(index) * unit_floats(unit);
    return Accumulator(memory, unit.all_rows());
  }

  void run_task(const Task& task, Worker& worker) {
    const Unit& unit = scratch_.units[static_cast<std::size_t>(task.unit)];
    const float* q = load_queries(unit, worker);
    const Accumulator total(floats(worker.total), unit.all_rows());
    if (task.run < 0) {
      const Accumulator run(floats(worker.run), unit.all_rows());
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
  std::int64_t head(const Unit& unit, int r) const {
    const int kv_head = unit.first_head + r / unit.rows;
    return std::int64_t{kv_head} * group_ + (unit.first_row + r % unit.rows) % group_;
  }

  const float* load_queries(const Unit& unit, Worker& worker) const {
    float* q = floats(worker.q);
    for (int row = 0; row < unit.all_rows(); ++row) {
      const int own = call_.kv.head_dim;
      const float* from = call_.q.row(token(unit, row)) + head(unit, row) * own;
      float* to = q + std::int64_t{row} * dim_;
      int d = 0;
      for (; d + kKvUnit <= own; d += kKvUnit) {
        for (int i = 0; i < kKvUnit; ++i) to[d + i] = from[d + i] * q_scale_;
      }
      for (; d < dim_; ++d) to[d] = d < own ? from[d] * q_scale_ : 0.0f;
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
    tile.key_dim = dim_;
    tile.value_dim = value_dim_;
    tile.padded_dim = padded_dim_;
    tile.rows = unit.rows;
    tile.begin = begins.data();
    tile.end = ends.data();
    tile.cap = cap_;
    tile.keys = worker.keys.data();
    tile.wide_keys = floats(worker.wide_keys);
    tile.values = floats(worker.values);
    const std::int64_t key_head = call_.kv.block_tokens * key_bytes_, value_head = call_.kv.block_tokens * value_bytes_;
    std::array<TileVectors, 2> vectors;  // of this tile and the next one, by turns
    find_tile(unit, start, vectors[start / kTileTokens % 2]);
    for (; start < last; start += kTileTokens) {
      const TileVectors& now = vectors[start / kTileTokens % 2];
      TileVectors& next = vectors[1 - start / kTileTokens % 2];
      if (start + kTileTokens < last) find_tile(unit, start + kTileTokens, next);
      for (int row = 0; row < unit.rows; ++row) {
        const auto r = static_cast<std::size_t>(row);
        begins[r] = std::max(row_begin(unit.sequence, unit.first_row + row) - start, 0);
        ends[r] = std::min(row_end(unit.sequence, unit.first_row + row) - start, kTileTokens);
      }
      tile.used_begin = now.begin;
      tile.used_end = now.end;
      for (int head = 0; head < unit.heads; ++head) {
        tile.stored_keys = {now.keys.data(), head * key_head};
        tile.stored_values = {now.values.data(), head * value_head};
        const bool last_head = head + 1 == unit.heads;
        const TileVectors& after = last_head && start + kTileTokens < last ? next : now;
        const int next_head = last_head ? 0 : head + 1;
        tile.next_keys = {after.keys.data(), next_head * key_head};
        if (!call_.kv.values_in_keys) tile.next_values = {after.values.data(), next_head * value_head};
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
    tile.begin = std::max(unit.begin - start, 0);
    tile.end = std::min(unit.end - start, kTileTokens);
    if (selects()) {
      find_selected(unit, start, tile);
    } else {
      find_neighbours(unit, start, tile);
    }
    for (auto* vectors : {&tile.keys, &tile.values}) {  // what nobody sees must be readable all the same
      const std::byte* seen = (*vectors)[static_cast<std::size_t>(tile.begin)];
      std::fill_n(vectors->begin(), tile.begin, seen);
      std::fill(vectors->begin() + tile.end, vectors->end(), seen);
    }
  }

  void find_selected(const Unit& unit, int start, TileVectors& tile) const {
    const KvLayerView& kv = call_.kv;
    const std::int32_t* table = call_.block_tables.row(unit.sequence);
    const std::int32_t* positions = selected(unit.sequence, unit.first_row) + start;
    for (int t = tile.begin; t < tile.end; ++t) {
      CHECK(positions[t] >= 0 && positions[t] < call_.seq_lens[static_cast<std::size_t>(unit.sequence)],
            "position {} of sequence {} is selected", positions[t], unit.sequence);
      const std::int64_t block = table[positions[t] / kv.block_tokens], offset = positions[t] % kv.block_tokens;
      CHECK(block >= 0, "position {} of sequence {} has no block", positions[t], unit.sequence);
      const std::byte* layer = kv.base + block * kv.block_stride;
      const std::int64_t place = std::int64_t{unit.first_head} * kv.block_tokens + offset;
      const std::byte* key = layer + place * key_bytes_;
      tile.keys[static_cast<std::size_t>(t)] = key;
      tile.values[static_cast<std::size_t>(t)] =
          kv.values_in_keys ? key
                            : layer + std::int64_t{kv.heads} * kv.block_tokens * key_bytes_ + place * value_bytes_;
    }
  }

  void find_neighbours(const Unit& unit, int start, TileVectors& tile) const {
    const KvLayerView& kv = call_.kv;
    const std::int32_t* table = call_.block_tables.row(unit.sequence);
    int index = (start + tile.begin) / kv.block_tokens, offset = (start + tile.begin) % kv.block_tokens;
    for (int t = tile.begin; t < tile.end; ++index, offset = 0) {
      const std::int64_t block = table[index];
      CHECK(block >= 0, "block {} of sequence {} is {}", index, unit.sequence, block);
      const std::byte* layer = kv.base + block * kv.block_stride;
      const std::byte* key = layer + (std::int64_t{unit.first_head} * kv.block_tokens + offset) * key_bytes_;
      const std::byte* value = layer + std::int64_t{kv.heads} * kv.block_tokens * key_bytes_ +
                               (std::int64_t{unit.first_head} * kv.block_tokens + offset) * value_bytes_;
      if (kv.values_in_keys) value = key;
      for (; t < tile.end && offset < kv.block_tokens; ++t, ++offset, key += key_bytes_, value += value_bytes_) {
        tile.keys[static_cast<std::size_t>(t)] = key;
        tile.values[static_cast<std::size_t>(t)] = value;
      }
    }
  }

  void merge(const Unit& unit, const Accumulator& run, const Accumulator& total) const {
    kernels_.attention_merge(unit.all_rows(), padded_dim_, run.max, run.sum, run.out, total.max, total.sum, total.out);
  }

  void finish(const Unit& unit, const Accumulator& total) const {
    for (int row = 0; row < unit.all_rows(); ++row) {
      float sum = total.sum[row];
      // Far above all scores this is infinite, and the result 0, as it should be.
      if (call_.sinks != nullptr)
        sum += std::exp2(call_.sinks[head(unit, row)] * std::numbers::log2e_v<float> - total.max[row]);
      const int own = call_.kv.value_size();
      float* result = total.out + std::int64_t{row} * padded_dim_;
      float* to = call_.out.row(token(unit, row)) + head(unit, row) * own;
      kernels_.attention_finish(value_dim_, sum, result, own == value_dim_ ? to : result);
      if (own != value_dim_) std::copy_n(result, own, to);
    }
  }

  ThreadPool& pool_;
  const OpKernels& kernels_;
  const AttentionCall& call_;
  AttentionScratch::Impl& scratch_;
  KvKind kind_;
  int dim_ = 0, value_dim_ = 0, padded_dim_ = 0, group_ = 0;
  int most_rows_ = 0;                             // of a unit
  std::int64_t key_bytes_ = 0, value_bytes_ = 0;  // from one token's vector to the next one's
  float q_scale_ = 0.0f, cap_ = 0.0f;
  std::atomic<std::size_t> next_task_ = 0;
};

}  // namespace

void attention(ThreadPool& pool, Isa isa, const AttentionCall& call, AttentionScratch& scratch) {
  Attention(pool, isa, call, *scratch.impl_).run();
}

}  // namespace weir::backend::cpu
