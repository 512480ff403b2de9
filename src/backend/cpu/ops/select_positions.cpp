#include "backend/cpu/ops/select_positions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "backend/cpu/ops/select.h"
#include "base/check.h"

namespace weir::backend::cpu {
namespace {

// Scores that are kept at once: 8 MB, unless a single query has more.
constexpr std::int64_t kScoresAtOnce = std::int64_t{1} << 21;

// Orders as scores do; what is no number comes last, like minus infinity, instead of spoiling the order.
std::uint32_t rank_of(float score) {
  constexpr std::uint32_t kSign = 0x80000000u;
  if (score == 0) return kSign;  // both zeros
  const auto bits = std::bit_cast<std::uint32_t>(score == score ? score : -std::numeric_limits<float>::infinity());
  return bits & kSign ? ~bits : bits | kSign;
}

class Select {
 public:
  Select(ThreadPool& pool, Isa isa, const SelectCall& call, SelectScratch& scratch)
      : pool_(pool), kernels_(op_kernels(isa)), call_(call), scratch_(scratch), kind_(kv_kind(call.keys.dtype)) {
    const KvLayerView& keys = call.keys;
    CHECK(keys.heads == 1 && keys.head_dim > 0 && keys.head_dim % 8 == 0 && keys.block_tokens > 0,
          "{} heads of {}, blocks of {}", keys.heads, keys.head_dim, keys.block_tokens);
    CHECK(call.q.cols == call.weights.cols * keys.head_dim && call.q.rows == call.weights.rows &&
              call.positions.rows == call.q.rows && call.positions.cols > 0,
          "{} x {} queries, {} x {} weights, {} x {} positions", call.q.rows, call.q.cols, call.weights.rows,
          call.weights.cols, call.positions.rows, call.positions.cols);
    CHECK(call.query_starts.size() == call.seq_lens.size() + 1, "{} query starts for {} sequences",
          call.query_starts.size(), call.seq_lens.size());
  }

  void run() {
    list_queries();
    if (scratch_.queries.empty()) return;
    reserve();
    const auto count = static_cast<std::int64_t>(scratch_.queries.size());
    for (std::int64_t begin = 0, end = 0; begin < count; begin = end) {
      width_ = 0;
      for (end = begin; end < count; ++end) {
        const std::int64_t width = std::max(width_, tiles(query(end)) * kTileTokens);
        if (end > begin && width * (end + 1 - begin) > kScoresAtOnce) break;
        width_ = width;
      }
      grow(&scratch_.scores, static_cast<std::size_t>((end - begin) * width_) * sizeof(float));
      score(begin, end);
      pool_.run([&](int w, int workers) {
        const std::int64_t n = end - begin;
        for (std::int64_t i = n * w / workers; i < n * (w + 1) / workers; ++i)
          choose(query(begin + i), scores(i), scratch_.workers[static_cast<std::size_t>(w)]);
      });
    }
  }

 private:
  using Query = SelectScratch::Query;

  const Query& query(std::int64_t i) const { return scratch_.queries[static_cast<std::size_t>(i)]; }
  static std::int64_t tiles(const Query& query) { return (query.seen + kTileTokens - 1) / kTileTokens; }
  float* scores(std::int64_t i) const { return floats(scratch_.scores) + i * width_; }

  // Those that must be scored; the others get everything at once.
  void list_queries() {
    scratch_.queries.clear();
    for (std::size_t s = 0; s < call_.seq_lens.size(); ++s) {
      const std::int32_t first = call_.query_starts[s], last = call_.query_starts[s + 1];
      CHECK(last - first <= call_.seq_lens[s], "{} queries in a sequence of {}", last - first, call_.seq_lens[s]);
      for (std::int32_t row = first; row < last; ++row) {
        const std::int32_t seen = call_.seq_lens[s] - (last - row) + 1;
        if (seen > call_.positions.cols) {
          scratch_.queries.push_back({row, static_cast<std::int32_t>(s), seen});
          continue;
        }
        std::int32_t* out = call_.positions.row(row);
        std::iota(out, out + seen, 0);
        std::fill(out + seen, out + call_.positions.cols, -1);
      }
    }
  }

  void reserve() {
    if (scratch_.workers.size() < static_cast<std::size_t>(pool_.threads()))
      scratch_.workers.resize(static_cast<std::size_t>(pool_.threads()));
    const auto elements = static_cast<std::size_t>(kTileTokens * call_.keys.head_dim);
    for (SelectScratch::Worker& worker : scratch_.workers) {
      grow(&worker.keys, elements * sizeof(float));
      grow(&worker.wide_keys, elements * sizeof(float));
    }
  }

  // All tiles of queries [begin, end), in as many equal parts as there are threads.
  void score(std::int64_t begin, std::int64_t end) {
    std::int64_t total = 0;
    for (std::int64_t i = begin; i < end; ++i) total += tiles(query(i));
    pool_.run([&](int w, int workers) {
      const std::int64_t from = total * w / workers, to = total * (w + 1) / workers;
      std::int64_t at = 0;
      for (std::int64_t i = begin; i < end && at < to; ++i) {
        const std::int64_t count = tiles(query(i));
        for (std::int64_t tile = std::max<std::int64_t>(from - at, 0); tile < std::min(count, to - at); ++tile)
          score_tile(query(i), tile, scores(i - begin), scratch_.workers[static_cast<std::size_t>(w)]);
        at += count;
      }
    });
  }

  void score_tile(const Query& query, std::int64_t index, float* scores, SelectScratch::Worker& worker) const {
    const KvLayerView& keys = call_.keys;
    const std::int64_t key_bytes = tensor::row_bytes(keys.dtype, keys.head_dim);
    const std::int32_t* table = call_.block_tables.row(query.sequence);
    const std::int64_t first = index * kTileTokens;
    const int used = static_cast<int>(std::min<std::int64_t>(kTileTokens, query.seen - first));
    std::array<const std::byte*, kTileTokens> at;
    for (int t = 0; t < used; ++t) {
      const std::int64_t position = first + t;
      const std::int64_t block = table[position / keys.block_tokens];
      CHECK(block >= 0, "position {} of sequence {} has no block", position, query.sequence);
      at[static_cast<std::size_t>(t)] =
          keys.base + block * keys.block_stride + position % keys.block_tokens * key_bytes;
    }
    std::fill(at.begin() + used, at.end(), at[0]);  // what is not seen must be readable all the same
    AttentionTile tile;
    tile.kind = kind_;
    tile.key_dim = keys.head_dim;
    tile.stored_keys = tile.next_keys = {at.data(), 0};
    tile.used_end = used;
    tile.rows = static_cast<int>(call_.weights.cols);
    tile.q = call_.q.row(query.row);
    tile.keys = worker.keys.data();
    tile.wide_keys = floats(worker.wide_keys);
    kernels_.index_tile(tile, call_.weights.row(query.row), scores + first);
  }

  // Digit by digit the rank of the last one that is chosen, then a walk along all: a few steps a position, whatever the
  // scores, and the choice comes in order.
  void choose(const Query& query, const float* scores, SelectScratch::Worker& worker) const {
    std::vector<std::uint32_t>& ranks = worker.ranks;
    ranks.resize(static_cast<std::size_t>(query.seen));
    std::transform(scores, scores + query.seen, ranks.begin(), rank_of);
    std::int64_t left = call_.positions.cols;  // to be chosen of those whose upper digits are `last`'s
    std::uint32_t last = 0, known = 0;
    for (const auto& [shift, values] : {std::pair{21, 1u << 11}, {10, 1u << 11}, {0, 1u << 10}}) {
      std::array<std::int32_t, 1 << 11> counts{};
      for (const std::uint32_t rank : ranks) counts[(rank >> shift) & (values - 1)] += (rank & known) == last;
      std::uint32_t digit = values - 1;
      for (; counts[digit] < left; --digit) left -= counts[digit];
      last |= digit << shift;
      known |= (values - 1) << shift;
    }
    std::int32_t* out = call_.positions.row(query.row);
    for (std::int32_t i = 0; i < query.seen; ++i) {
      const std::uint32_t rank = ranks[static_cast<std::size_t>(i)];
      if (rank > last || (rank == last && left-- > 0)) *out++ = i;
    }
  }

  ThreadPool& pool_;
  const OpKernels& kernels_;
  const SelectCall& call_;
  SelectScratch& scratch_;
  KvKind kind_;
  std::int64_t width_ = 0;  // scores of a query, in the part in hand
};

}  // namespace

void select_positions(ThreadPool& pool, Isa isa, const SelectCall& call, SelectScratch& scratch) {
  Select(pool, isa, call, scratch).run();
}

}  // namespace weir::backend::cpu
