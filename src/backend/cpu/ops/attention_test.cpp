#include "backend/cpu/ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/cpu/ops/rows.h"
#include "base/rng.h"
#include "tensor/half.h"

namespace weir::backend::cpu {
namespace {

struct Shape {
  int heads = 1, kv_heads = 1, dim = 64, block_tokens = 16, window = 0;
  float softcap = 0.0f;
  DType dtype = DType::kF32;
  int value_dim = 0;  // 0: dim
  bool values_in_keys = false;
  std::vector<float> sinks = {};  // of each head, or none
  int selected = 0;               // positions that each query sees, at most; 0: all

  int value_size() const { return value_dim == 0 ? dim : value_dim; }
  std::int64_t width() const { return std::int64_t{heads} * dim; }
  std::int64_t out_width() const { return std::int64_t{heads} * value_size(); }
  std::int64_t kv_width() const { return std::int64_t{kv_heads} * dim; }
  // In the cache vectors are whole eights.
  static int stored(int size) { return (size + 7) / 8 * 8; }
  std::int64_t stored_keys() const { return std::int64_t{kv_heads} * stored(dim); }
  std::int64_t stored_values() const { return values_in_keys ? 0 : std::int64_t{kv_heads} * stored(value_size()); }
  std::int64_t value_width() const { return values_in_keys ? 0 : std::int64_t{kv_heads} * value_size(); }
};

// A sequence's content is a function of (seed, position): the same whatever batch it is in.
std::vector<float> random_row(std::uint64_t seed, int position, int what, std::int64_t width) {
  std::vector<float> row(static_cast<std::size_t>(width));
  const std::uint64_t key =
      seed * 1000003 + static_cast<std::uint64_t>(position) * 4 + static_cast<std::uint64_t>(what);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(philox(key, i / 4)[i % 4]) * 0x1p-30f - 2.0f;
  }
  return row;
}

struct Sequence {
  std::uint64_t seed = 0;
  int length = 0;   // tokens written
  int queries = 0;  // the last so many are computed
};

// The positions that the query at `position` sees, in ascending order.
std::vector<std::int32_t> selection(const Shape& shape, std::uint64_t seed, int position) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(position) + 1);
  std::iota(all.begin(), all.end(), 0);
  if (shape.selected == 0 || position < shape.selected) return all;
  for (int i = 0; i < shape.selected; ++i) {
    const double u = uniform(seed * 1000 + static_cast<std::uint64_t>(position), static_cast<std::uint64_t>(i));
    std::swap(all[static_cast<std::size_t>(i)],
              all[static_cast<std::size_t>(i + static_cast<int>(u * (position + 1 - i)))]);
  }
  all.resize(static_cast<std::size_t>(shape.selected));
  std::sort(all.begin(), all.end());
  return all;
}

// A paged arena full of NaN, into which sequences are written through scattered block tables.
class Arena {
 public:
  static constexpr int kLayers = 3;

  Arena(const Shape& shape, std::vector<int> capacities, std::uint64_t seed) : shape_(shape) {
    int blocks = 3;
    for (const int tokens : capacities) {
      max_blocks_ = std::max(max_blocks_, (tokens + shape.block_tokens - 1) / shape.block_tokens);
      blocks += (tokens + shape.block_tokens - 1) / shape.block_tokens;
    }
    std::vector<std::int32_t> order(static_cast<std::size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[static_cast<std::size_t>(uniform(seed, i) * static_cast<double>(i + 1))]);
    }
    tables_.assign(capacities.size() * static_cast<std::size_t>(max_blocks_), -1);
    std::size_t next = 0;
    for (std::size_t s = 0; s < capacities.size(); ++s) {
      const int count = (capacities[s] + shape.block_tokens - 1) / shape.block_tokens;
      for (int b = 0; b < count; ++b)
        tables_[s * static_cast<std::size_t>(max_blocks_) + static_cast<std::size_t>(b)] = order[next++];
    }
    const std::int64_t layer_bytes =
        shape.block_tokens * tensor::row_bytes(shape.dtype, shape.stored_keys() + shape.stored_values());
    memory_.assign(static_cast<std::size_t>(layer_bytes * kLayers * blocks), std::byte{0xff});
    view_ = {memory_.data() + layer_bytes,
             layer_bytes * kLayers,
             shape.block_tokens,
             shape.kv_heads,
             shape.dim,
             shape.dtype,
             shape.value_dim,
             shape.values_in_keys};
  }

  void write(ThreadPool& pool, Isa isa, int sequence, std::uint64_t seed, int from, int to) {
    std::vector<float> k, v;
    std::vector<std::int64_t> slots;
    for (int position = from; position < to; ++position) {
      const auto key = random_row(seed, position, 1, shape_.kv_width()),
                 value = random_row(seed, position, 2, shape_.value_width());
      k.insert(k.end(), key.begin(), key.end());
      v.insert(v.end(), value.begin(), value.end());
      slots.push_back(std::int64_t{table(sequence)[position / shape_.block_tokens]} * shape_.block_tokens +
                      position % shape_.block_tokens);
    }
    kv_write(pool, isa,
             {{k.data(), to - from, shape_.kv_width()}, {v.data(), to - from, shape_.value_width()}, view_, slots});
  }

  // Makes the blocks wholly before `position` unreadable, as the KV manager does with what has left the window.
  void forget_before(int sequence, int position) {
    for (int b = 0; (b + 1) * shape_.block_tokens <= position; ++b) table(sequence)[b] = -1;
  }

  float stored(int sequence, bool value, int head, int position, int d) const {
    const std::int64_t block =
        tables_[static_cast<std::size_t>(sequence * max_blocks_ + position / shape_.block_tokens)];
    const std::int64_t bytes = tensor::row_bytes(shape_.dtype, 1);
    const bool apart = value && !shape_.values_in_keys;
    const int dim = Shape::stored(apart ? shape_.value_size() : shape_.dim);
    const std::int64_t before = apart ? shape_.stored_keys() * shape_.block_tokens : 0;
    const std::int64_t token = std::int64_t{head} * shape_.block_tokens + position % shape_.block_tokens;
    const std::byte* at = view_.base + block * view_.block_stride + (before + token * dim + d) * bytes;
    std::uint16_t half = 0;
    float full = 0;
    if (bytes == 4) std::memcpy(&full, at, 4);
    if (bytes == 2) std::memcpy(&half, at, 2);
    return shape_.dtype == DType::kF32   ? full
           : shape_.dtype == DType::kF16 ? tensor::f32_from_f16(half)
                                         : tensor::f32_from_bf16(half);
  }

  // A head's keys or values of positions [from, to), each where its position is; before `from` zeros.
  std::vector<float> stored_rows(int sequence, bool value, int head, int from, int to) const {
    const int size = value ? shape_.value_size() : shape_.dim;
    std::vector<float> rows(static_cast<std::size_t>(from) * static_cast<std::size_t>(size));
    rows.reserve(static_cast<std::size_t>(to) * static_cast<std::size_t>(size));
    for (int position = from; position < to; ++position)
      for (int d = 0; d < size; ++d) rows.push_back(stored(sequence, value, head, position, d));
    return rows;
  }

  std::int32_t* table(int sequence) { return tables_.data() + sequence * max_blocks_; }
  Matrix<const std::int32_t> tables() const {
    return {tables_.data(), static_cast<std::int64_t>(tables_.size()) / max_blocks_, max_blocks_};
  }
  const KvLayerView& view() const { return view_; }

 private:
  Shape shape_;
  int max_blocks_ = 1;
  std::vector<std::byte> memory_;
  std::vector<std::int32_t> tables_;
  KvLayerView view_;
};

constexpr float kScale = 0.11f;

std::vector<float> attend(ThreadPool& pool, Isa isa, const Shape& shape, const Arena& arena,
                          const std::vector<Sequence>& batch, AttentionScratch& scratch) {
  std::vector<float> q;
  std::vector<std::int32_t> starts = {0}, lengths, selected;
  for (const Sequence& s : batch) {
    for (int i = s.length - s.queries; i < s.length; ++i) {
      if (shape.selected > 0) {
        auto list = selection(shape, s.seed, i);
        list.resize(static_cast<std::size_t>(shape.selected), -1);
        selected.insert(selected.end(), list.begin(), list.end());
      }
      const auto row = random_row(s.seed, i, 0, shape.width());
      q.insert(q.end(), row.begin(), row.end());
    }
    starts.push_back(starts.back() + s.queries);
    lengths.push_back(s.length);
  }
  std::vector<float> out(static_cast<std::size_t>(starts.back() * shape.out_width()),
                         std::numeric_limits<float>::quiet_NaN());
  AttentionCall call;
  call.q = {q.data(), starts.back(), shape.width()};
  call.out = {out.data(), starts.back(), shape.out_width()};
  call.kv = arena.view();
  call.heads = shape.heads;
  call.query_starts = starts;
  call.seq_lens = lengths;
  call.block_tables = arena.tables();
  call.window = shape.window;
  call.scale = kScale;
  call.softcap = shape.softcap;
  if (!shape.sinks.empty()) call.sinks = shape.sinks.data();
  if (shape.selected > 0) call.selected = {selected.data(), starts.back(), shape.selected};
  attention(pool, isa, call, scratch);
  return out;
}

// The definition, in double precision, over what is stored.
std::vector<double> expected(const Shape& shape, const Arena& arena, const std::vector<Sequence>& batch) {
  std::vector<double> out;
  for (int s = 0; s < static_cast<int>(batch.size()); ++s) {
    const Sequence& sequence = batch[static_cast<std::size_t>(s)];
    const int from = shape.window > 0 ? std::max(0, sequence.length - sequence.queries + 1 - shape.window) : 0;
    std::vector<std::vector<float>> keys, values;
    for (int head = 0; head < shape.kv_heads && sequence.queries > 0; ++head) {
      keys.push_back(arena.stored_rows(s, false, head, from, sequence.length));
      values.push_back(arena.stored_rows(s, true, head, from, sequence.length));
    }
    for (int p = sequence.length - sequence.queries; p < sequence.length; ++p) {
      const auto q = random_row(sequence.seed, p, 0, shape.width());
      for (int head = 0; head < shape.heads; ++head) {
        const int kv_head = head / (shape.heads / shape.kv_heads);
        std::vector<double> weights, result(static_cast<std::size_t>(shape.value_size()), 0.0);
        const int first = shape.window > 0 ? std::max(0, p + 1 - shape.window) : 0;
        std::vector<std::int32_t> seen = selection(shape, sequence.seed, p);
        seen.erase(seen.begin(), std::lower_bound(seen.begin(), seen.end(), first));
        const float* query = q.data() + std::int64_t{head} * shape.dim;
        const float* key_rows = keys[static_cast<std::size_t>(kv_head)].data();
        const float* value_rows = values[static_cast<std::size_t>(kv_head)].data();
        for (const int t : seen) {
          const float* key = key_rows + std::int64_t{t} * shape.dim;
          double score = 0;
          for (int d = 0; d < shape.dim; ++d) score += double{query[d]} * double{key[d]};
          score *= double{kScale};
          if (shape.softcap > 0) score = shape.softcap * std::tanh(score / shape.softcap);
          weights.push_back(score);
        }
        double top = *std::max_element(weights.begin(), weights.end());
        if (!shape.sinks.empty()) top = std::max(top, double{shape.sinks[static_cast<std::size_t>(head)]});
        double sum = shape.sinks.empty() ? 0.0 : std::exp(shape.sinks[static_cast<std::size_t>(head)] - top);
        for (double& w : weights) sum += w = std::exp(w - top);
        for (std::size_t i = 0; i < seen.size(); ++i) {
          const float* value = value_rows + std::int64_t{seen[i]} * shape.value_size();
          const double share = weights[i] / sum;
          double* to = result.data();
          for (int d = 0; d < shape.value_size(); ++d) to[d] += share * double{value[d]};
        }
        out.insert(out.end(), result.begin(), result.end());
      }
    }
  }
  return out;
}

class AttentionTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!supported(GetParam())) GTEST_SKIP() << "this CPU has no " << name(GetParam());
  }

  Arena written(const Shape& shape, const std::vector<Sequence>& batch, std::uint64_t seed) {
    std::vector<int> capacities;
    for (const Sequence& s : batch) capacities.push_back(s.length + static_cast<int>(s.seed % 5));
    Arena arena(shape, capacities, seed);
    for (int s = 0; s < static_cast<int>(batch.size()); ++s) {
      const Sequence& sequence = batch[static_cast<std::size_t>(s)];
      arena.write(pool_, GetParam(), s, sequence.seed, 0, sequence.length);
      if (shape.window > 0) arena.forget_before(s, sequence.length - sequence.queries + 1 - shape.window);
    }
    return arena;
  }

  void expect_definition(const Shape& shape, const std::vector<Sequence>& batch) {
    const Arena arena = written(shape, batch, 42);
    const auto out = attend(pool_, GetParam(), shape, arena, batch, scratch_);
    const auto want = expected(shape, arena, batch);
    ASSERT_EQ(out.size(), want.size());
    double worst = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_FALSE(std::isnan(out[i])) << "dim " << shape.dim << ", element " << i;
      worst = std::max(worst, std::abs(out[i] - want[i]));
    }
    // Of chains of as many roundings as there are dimensions.
    EXPECT_LT(worst, 4e-8 * std::max(shape.dim, 250)) << "dim " << shape.dim << ", window " << shape.window;
  }

  ThreadPool pool_{2};
  AttentionScratch scratch_;
};

TEST_P(AttentionTest, AgreesWithTheDefinition) {
  const std::vector<Shape> shapes = {
      {.heads = 9, .kv_heads = 3, .dim = 64, .block_tokens = 16, .dtype = DType::kF16},
      {.heads = 4, .kv_heads = 4, .dim = 16, .block_tokens = 1, .dtype = DType::kF32},
      {.heads = 4, .kv_heads = 1, .dim = 24, .block_tokens = 2, .window = 5, .dtype = DType::kBF16},
      {.heads = 2, .kv_heads = 1, .dim = 32, .block_tokens = 64, .window = 64, .dtype = DType::kF16},
      {.heads = 8, .kv_heads = 2, .dim = 80, .block_tokens = 7, .softcap = 3.0f, .dtype = DType::kF32},
      {.heads = 4, .kv_heads = 1, .dim = 96, .block_tokens = 16, .window = 100, .softcap = 20.0f, .dtype = DType::kF16},
      {.heads = 2, .kv_heads = 2, .dim = 128, .block_tokens = 32, .dtype = DType::kBF16},
      {.heads = 4, .kv_heads = 1, .dim = 256, .block_tokens = 16, .window = 512, .dtype = DType::kF16},
      {.heads = 71, .kv_heads = 1, .dim = 8, .block_tokens = 3, .dtype = DType::kF32},
      {.heads = 6, .kv_heads = 2, .dim = 72, .block_tokens = 5, .dtype = DType::kF16, .value_dim = 48},
      {.heads = 4, .kv_heads = 2, .dim = 32, .block_tokens = 7, .dtype = DType::kF32, .value_dim = 40},
      {.heads = 2,
       .kv_heads = 1,
       .dim = 96,
       .block_tokens = 16,
       .dtype = DType::kBF16,
       .value_dim = 64,
       .values_in_keys = true},
      {.heads = 9,
       .kv_heads = 1,
       .dim = 24,
       .block_tokens = 3,
       .window = 70,
       .dtype = DType::kF16,
       .value_dim = 8,
       .values_in_keys = true},
      {.heads = 3, .kv_heads = 1, .dim = 40, .block_tokens = 1000, .window = 1, .dtype = DType::kF32},
      {.heads = 4, .kv_heads = 2, .dim = 100, .block_tokens = 16, .dtype = DType::kF16},
      {.heads = 3, .kv_heads = 3, .dim = 6, .block_tokens = 3, .window = 40, .dtype = DType::kF32},
      {.heads = 6, .kv_heads = 2, .dim = 50, .block_tokens = 5, .dtype = DType::kBF16, .value_dim = 33},
      {.heads = 5,
       .kv_heads = 1,
       .dim = 44,
       .block_tokens = 9,
       .dtype = DType::kF16,
       .value_dim = 30,
       .values_in_keys = true},
  };
  const std::vector<Sequence> batch = {{1, 1, 1},  {2, 100, 100}, {3, 64, 1},  {4, 580, 3},
                                       {5, 65, 2}, {6, 0, 0},     {7, 513, 20}};
  for (const Shape& shape : shapes) expect_definition(shape, batch);
}

// A logit of nothing, from negligible to overwhelming.
TEST_P(AttentionTest, SinksTakeTheirShare) {
  Shape shape = {.heads = 4, .kv_heads = 2, .dim = 32, .block_tokens = 16, .window = 70, .dtype = DType::kF16};
  shape.sinks = {-200.0f, 0.5f, 3.0f, 5000.0f};
  const std::vector<Sequence> batch = {{1, 1, 1}, {2, 100, 100}, {4, 580, 3}};
  expect_definition(shape, batch);
  shape.softcap = 4.0f;
  expect_definition(shape, batch);
}

TEST_P(AttentionTest, SelectedPositionsAreAllThatIsSeen) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const bool latent : {false, true}) {
      Shape shape = {.heads = latent ? 9 : 6, .kv_heads = latent ? 1 : 2, .dim = 40, .block_tokens = 5, .dtype = type};
      if (latent) {
        shape.value_dim = 32;
        shape.values_in_keys = true;
      }
      shape.selected = 71;
      expect_definition(shape, {{1, 1, 1}, {2, 100, 60}, {3, 71, 3}, {4, 600, 3}});
    }
  }
}

// DeepSeek's shape: keys of 576, the first 512 of which are the value; few and many query heads on the one KV head.
// A sanitizer makes the many take minutes and sees the same code with few.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kLatentHeads[] = {1, 16};
#else
constexpr int kLatentHeads[] = {1, 16, 128};
#endif
TEST_P(AttentionTest, AgreesWithTheDefinitionOfLatentAttention) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int heads : kLatentHeads) {
      for (const int window : {0, 61}) {
        const Shape shape = {.heads = heads,
                             .kv_heads = 1,
                             .dim = 576,
                             .block_tokens = 16,
                             .window = window,
                             .dtype = type,
                             .value_dim = 512,
                             .values_in_keys = true};
        expect_definition(shape, {{1, 1, 1}, {2, 67, 3}, {3, heads == 128 ? 131 : 515, 2}});
      }
    }
  }
}

// The rows of one sequence, computed in pieces as a scheduler would, each piece written just before it is attended to.
std::vector<float> in_chunks(ThreadPool& pool, Isa isa, const Shape& shape, const Sequence& sequence,
                             const std::vector<int>& sizes, AttentionScratch& scratch) {
  Arena arena(shape, {sequence.length}, sequence.seed + sizes.size());
  std::vector<float> out;
  int done = 0;
  for (std::size_t i = 0; done < sequence.length; ++i) {
    const int size = std::min(sizes[i % sizes.size()], sequence.length - done);
    arena.write(pool, isa, 0, sequence.seed, done, done + size);
    if (shape.window > 0) arena.forget_before(0, done + 1 - shape.window);
    done += size;
    const auto part = attend(pool, isa, shape, arena, {{sequence.seed, done, size}}, scratch);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(AttentionTest, BitsDoNotDependOnChunksBlocksOrThreads) {
  std::vector<Shape> shapes = {
      {.heads = 9, .kv_heads = 3, .dim = 64, .dtype = DType::kF16},
      {.heads = 5, .kv_heads = 1, .dim = 24, .window = 37, .dtype = DType::kBF16},
      {.heads = 4, .kv_heads = 2, .dim = 80, .softcap = 5.0f, .dtype = DType::kF32},
      {.heads = 2, .kv_heads = 1, .dim = 32, .window = 600, .dtype = DType::kF16},
      {.heads = 4, .kv_heads = 2, .dim = 100, .dtype = DType::kF16},
      {.heads = 7, .kv_heads = 1, .dim = 80, .dtype = DType::kF16, .value_dim = 64, .values_in_keys = true},
  };
  const Sequence sequence = {11, 640, 640};
  for (Shape& shape : shapes) {
    ThreadPool one(1);
    shape.block_tokens = 16;
    const auto want = in_chunks(one, GetParam(), shape, sequence, {sequence.length}, scratch_);
    for (const float x : want) ASSERT_FALSE(std::isnan(x));
    for (const int threads : {1, 2, 3, 4}) {
      ThreadPool pool(threads);
      AttentionScratch scratch;
      shape.block_tokens = threads == 1 ? 1 : threads == 2 ? 16 : threads == 3 ? 5 : 64;
      EXPECT_TRUE(same_bits(in_chunks(pool, GetParam(), shape, sequence, {1}, scratch), want)) << threads;
      EXPECT_TRUE(same_bits(in_chunks(pool, GetParam(), shape, sequence, {7, 64, 1, 33, 511}, scratch), want))
          << threads;
      EXPECT_TRUE(same_bits(in_chunks(pool, GetParam(), shape, sequence, {512}, scratch), want)) << threads;
    }
  }
}

TEST_P(AttentionTest, BitsOfSelectionsDoNotDependOnChunksBlocksOrThreads) {
  Shape shape = {.heads = 7, .kv_heads = 1, .dim = 80, .dtype = DType::kF16, .value_dim = 64, .values_in_keys = true};
  const Sequence sequence = {11, 640, 640};
  shape.selected = 520;  // more than one run
  const auto want = in_chunks(pool_, GetParam(), shape, sequence, {sequence.length}, scratch_);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    AttentionScratch scratch;
    shape.block_tokens = threads == 1 ? 1 : 7;
    EXPECT_TRUE(same_bits(in_chunks(pool, GetParam(), shape, sequence, {1}, scratch), want)) << threads;
    EXPECT_TRUE(same_bits(in_chunks(pool, GetParam(), shape, sequence, {7, 64, 1, 33, 511}, scratch), want)) << threads;
  }
  // All positions selected are the same as no selection.
  shape.selected = 640;
  const auto all = in_chunks(pool_, GetParam(), shape, sequence, {100}, scratch_);
  shape.selected = 0;
  EXPECT_TRUE(same_bits(in_chunks(pool_, GetParam(), shape, sequence, {100}, scratch_), all));
}

TEST_P(AttentionTest, BitsDoNotDependOnNeighbours) {
  const Shape shape = {.heads = 6, .kv_heads = 2, .dim = 64, .block_tokens = 16, .dtype = DType::kF16};
  const Sequence subject = {21, 600, 3};
  const Arena alone = written(shape, {subject}, 1);
  const auto want = attend(pool_, GetParam(), shape, alone, {subject}, scratch_);
  for (int round = 0; round < 4; ++round) {
    std::vector<Sequence> batch;
    for (int i = 0; i < 3 * round; ++i)
      batch.push_back({static_cast<std::uint64_t>(30 + i), 50 + 97 * i, 1 + 20 * (i % 3)});
    const std::size_t before = [&] {
      std::size_t rows = 0;
      for (const Sequence& s : batch) rows += static_cast<std::size_t>(s.queries);
      return rows;
    }();
    batch.push_back(subject);
    batch.push_back({99, 17, 17});
    const Arena arena = written(shape, batch, static_cast<std::uint64_t>(round) + 5);
    const auto all = attend(pool_, GetParam(), shape, arena, batch, scratch_);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(before * static_cast<std::size_t>(shape.width()));
    EXPECT_TRUE(same_bits(std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(want.size())), want));
  }
}

// Scores far apart: weights underflow to nothing, sums do not overflow.
TEST_P(AttentionTest, SurvivesLargeScores) {
  const Shape shape = {.heads = 1, .kv_heads = 1, .dim = 16, .block_tokens = 16, .dtype = DType::kF32};
  std::vector<float> keys(16 * 100, 0.0f), values(16 * 100, 0.0f), q(16, 1.0f);
  for (int t = 0; t < 100; ++t) {
    keys[static_cast<std::size_t>(t) * 16] = t == 40 ? 1e30f : t % 2 == 0 ? -1e30f : 1e20f;
    values[static_cast<std::size_t>(t) * 16] = static_cast<float>(t);
  }
  Arena arena(shape, {100}, 3);
  std::vector<std::int64_t> slots;
  for (int t = 0; t < 100; ++t) slots.push_back(arena.table(0)[t / 16] * 16 + t % 16);
  kv_write(pool_, GetParam(), {{keys.data(), 100, 16}, {values.data(), 100, 16}, arena.view(), slots});
  std::vector<float> out(16);
  const std::vector<std::int32_t> starts = {0, 1}, lengths = {100};
  AttentionCall call;
  call.q = {q.data(), 1, 16};
  call.out = {out.data(), 1, 16};
  call.kv = arena.view();
  call.heads = 1;
  call.query_starts = starts;
  call.seq_lens = lengths;
  call.block_tables = arena.tables();
  attention(pool_, GetParam(), call, scratch_);
  EXPECT_EQ(out[0], 40.0f);
  EXPECT_EQ(out[1], 0.0f);
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace weir::backend::cpu
