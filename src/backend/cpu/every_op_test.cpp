// Every operation, type and ISA on odd sizes with 1 to 64 rows, all buffers and the backend's own memory against
// unreadable pages: nothing is read or written outside, and rows computed together have the bits each has alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "backend/cpu/guarded.h"
#include "backend/cpu/linear/testing.h"

namespace weir::backend::cpu {
namespace {

using std::int64_t;
using testing::Guarded;
using testing::isas;
using testing::make;
using testing::random_floats;
using testing::random_weights;
using Bytes = std::vector<std::byte>;

constexpr int kRows = 64;
// A sanitizer makes all this ten times slower, and what it would see the unreadable pages show too: there a part does.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
constexpr DType kWeightTypes[] = {DType::kBF16, DType::kQ5_1, DType::kQ6_K, DType::kQ3_K};
#else
constexpr bool kSanitized = false;
constexpr DType kWeightTypes[] = {DType::kF32,    DType::kF16,  DType::kBF16,   DType::kQ4_0,  DType::kQ4_1,
                                  DType::kQ5_0,   DType::kQ5_1, DType::kQ8_0,   DType::kQ4_K,  DType::kQ5_K,
                                  DType::kQ6_K,   DType::kQ2_K, DType::kIQ4_NL, DType::kMXFP4, DType::kNVFP4,
                                  DType::kIQ4_XS, DType::kQ3_K, DType::kTQ2_0};
#endif
constexpr DType kKvTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

std::vector<Isa> tried_isas() {
  const std::vector<Isa> all = isas();
  return kSanitized ? std::vector{all.back()} : all;
}

Bytes bytes_of(const Guarded<float>& values) {
  const auto bytes = std::as_bytes(std::span<const float>(values));
  return {bytes.begin(), bytes.end()};
}

TEST(GuardsDeathTest, FaultBesideEveryBuffer) {
  const auto read = [](const float* at) { return *static_cast<const volatile float*>(at); };
  const Guarded<float> after(Placement::kGuardAfter, 3), before(Placement::kGuardBefore, 3);
  EXPECT_EQ(read(after.data()) + read(after.data() + 2) + read(before.data()), 0.0f);
  EXPECT_DEATH(read(after.data() + 3), "");
  EXPECT_DEATH(read(before.data() - 1), "");
  for (const Placement placement : {Placement::kGuardAfter, Placement::kGuardBefore}) {
    place_memory(placement);
    const Memory memory(5 * 64);
    place_memory(Placement::kNormal);
    const auto* values = reinterpret_cast<const float*>(memory.data());
    EXPECT_EQ(read(values) + read(values + 79), 0.0f);
    EXPECT_DEATH(read(placement == Placement::kGuardAfter ? values + 80 : values - 1), "");
  }
}

// Computes rows [first, first + count) of an input that is the same every time, in buffers placed so; their results.
using Operation = std::function<Bytes(Backend& backend, Placement placement, int first, int count)>;

void expect_rows_alone(Isa isa, Compute compute, const std::string& label, const Operation& operation) {
  for (const Placement placement : {Placement::kGuardAfter, Placement::kGuardBefore}) {
    place_memory(placement);
    Bytes alone;
    for (int row = 0; row < kRows; ++row) {
      const Bytes one = operation(*make(isa, 1, compute), placement, row, 1);
      alone.insert(alone.end(), one.begin(), one.end());
    }
    const std::size_t row_bytes = alone.size() / kRows;
    // Kernels run on past an end sooner than back before a beginning: that is tried with fewer numbers of rows, as is
    // scalar code, which takes row by row.
    const bool every = placement == Placement::kGuardAfter && isa != Isa::kScalar && !kSanitized;
    for (int count = 1; count <= kRows; count += every ? 1 : kSanitized ? 21 : 9) {
      const int first = 7 * count % (kRows - count + 1), threads = count % 16 == 0 ? 1 + count % 3 : 1;
      const Bytes together = operation(*make(isa, threads, compute), placement, first, count);
      const std::byte* expected = alone.data() + static_cast<std::size_t>(first) * row_bytes;
      ASSERT_EQ(together.size(), row_bytes * static_cast<std::size_t>(count));
      EXPECT_EQ(std::memcmp(together.data(), expected, together.size()), 0)
          << label << ", rows " << first << " + " << count;
    }
    place_memory(Placement::kNormal);
  }
}

// Rows [first, first + count) of `all`.
Guarded<float> rows_of(Placement placement, const std::vector<float>& all, int64_t cols, int first, int count) {
  return {placement,
          std::span(all).subspan(static_cast<std::size_t>(first * cols), static_cast<std::size_t>(count * cols))};
}

std::unique_ptr<LinearWeight> pack(Backend& backend, Placement placement, DType type, int64_t rows, int64_t cols,
                                   const Bytes& data) {
  const Guarded<std::byte> file(placement, std::span(data));
  return backend.pack(type, rows, cols, file);
}

struct Size {
  int64_t outputs, inputs;
};

// More than one panel and, with the first, more inputs than any kernel takes at once; the last panel not full.
std::vector<Size> sizes(DType type) {
  const int64_t unit = tensor::info(type).block_elements;
  return {{21, unit == 1 ? 515 : unit == 32 ? 17 * 32 : 3 * 256}, {33, unit == 1 ? 7 : unit}, {1, unit}};
}

class WeightTest : public ::testing::TestWithParam<std::tuple<DType, Isa>> {
 protected:
  DType type() const { return std::get<0>(GetParam()); }
  Isa isa() const { return std::get<1>(GetParam()); }
  std::mt19937 rng_{17};
};

std::string label(const ::testing::TestParamInfo<std::tuple<DType, Isa>>& info) {
  std::string text =
      std::string(tensor::info(std::get<0>(info.param)).name) + "_" + std::string(name(std::get<1>(info.param)));
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

std::string label(const ::testing::TestParamInfo<Isa>& info) {
  std::string text(name(info.param));
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

TEST_P(WeightTest, Linear) {
  for (const auto [outputs, inputs] : sizes(type())) {
    const Bytes data = random_weights(type(), outputs, inputs, rng_);
    const auto x = random_floats(kRows * inputs, rng_), onto = random_floats(kRows * outputs, rng_),
               norm = random_floats(inputs, rng_), bias = random_floats(outputs, rng_);
    for (const Compute compute : {Compute::kAuto, Compute::kExact}) {
      if (compute == Compute::kExact && (type() == DType::kF32 || type() == DType::kF16)) continue;  // the same kernels
      expect_rows_alone(
          isa(), compute, std::to_string(inputs), [&](Backend& backend, Placement p, int first, int count) {
            const auto weight = pack(backend, p, type(), outputs, inputs, data);
            const Guarded<float> in = rows_of(p, x, inputs, first, count),
                                 out = rows_of(p, onto, outputs, first, count), norms(p, std::span(norm)),
                                 biases(p, std::span(bias));
            const LinearOutput output = {weight.get(), biases.data(), {out.data(), count, outputs}, true};
            const bool normed = outputs != 33;
            backend.linear({{in.data(), count, inputs}, normed ? norms.data() : nullptr, 1e-5f, {&output, 1}});
            return bytes_of(out);
          });
    }
  }
}

TEST_P(WeightTest, GatedLinear) {
  const auto [outputs, inputs] = sizes(type())[0];
  const Bytes gate_data = random_weights(type(), outputs, inputs, rng_),
              up_data = random_weights(type(), outputs, inputs, rng_);
  const auto x = random_floats(kRows * inputs, rng_), bias = random_floats(outputs, rng_);
  for (const auto activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSwiglu}) {
    expect_rows_alone(isa(), Compute::kAuto, "", [&](Backend& backend, Placement p, int first, int count) {
      const auto gate = pack(backend, p, type(), outputs, inputs, gate_data),
                 up = pack(backend, p, type(), outputs, inputs, up_data);
      const Guarded<float> in = rows_of(p, x, inputs, first, count), gate_bias(p, std::span(bias)),
                           up_bias(p, std::span(bias)), out(p, static_cast<std::size_t>(count * outputs));
      backend.gated_linear({.x = {in.data(), count, inputs},
                            .gate = gate.get(),
                            .up = up.get(),
                            .gate_bias = gate_bias.data(),
                            .up_bias = up_bias.data(),
                            .activation = activation,
                            .y = {out.data(), count, outputs}});
      return bytes_of(out);
    });
  }
}

TEST_P(WeightTest, HeadLinear) {
  constexpr int kHeads = 3;
  const int64_t unit = tensor::info(type()).block_elements, cols = unit == 1 ? 35 : unit, outputs = 21;
  std::vector<Bytes> data;
  for (int i = 0; i < kHeads; ++i) data.push_back(random_weights(type(), outputs, cols, rng_));
  const auto x = random_floats(kRows * kHeads * cols, rng_);
  expect_rows_alone(isa(), Compute::kAuto, "", [&](Backend& backend, Placement p, int first, int count) {
    std::vector<std::unique_ptr<LinearWeight>> owned;
    std::vector<const LinearWeight*> views;
    for (const Bytes& bytes : data) {
      owned.push_back(pack(backend, p, type(), outputs, cols, bytes));
      views.push_back(owned.back().get());
    }
    const Guarded<float> in = rows_of(p, x, kHeads * cols, first, count),
                         out(p, static_cast<std::size_t>(count * kHeads * outputs));
    backend.head_linear({.x = {in.data(), count, kHeads * cols},
                         .x_head = cols,
                         .weights = views,
                         .y = {out.data(), count, kHeads * outputs},
                         .y_head = outputs});
    return bytes_of(out);
  });
}

TEST_P(WeightTest, Experts) {
  constexpr int kExperts = 3, kPerToken = 2;
  const int64_t unit = tensor::info(type()).block_elements, cols = unit == 1 ? 35 : unit, inner = unit == 1 ? 21 : unit;
  std::vector<Bytes> data;
  for (int i = 0; i < 2 * kExperts; ++i) data.push_back(random_weights(type(), inner, cols, rng_));
  for (int i = 0; i < kExperts; ++i) data.push_back(random_weights(type(), cols, inner, rng_));
  const auto x = random_floats(kRows * cols, rng_), share = random_floats(kRows * kPerToken, rng_),
             bias = random_floats(kExperts * std::max(cols, inner), rng_);
  std::vector<std::int32_t> choice;
  for (int i = 0; i < kRows; ++i) choice.insert(choice.end(), {i % kExperts, i % 5 == 0 ? -1 : (i + 1) % kExperts});
  expect_rows_alone(isa(), Compute::kAuto, "", [&](Backend& backend, Placement p, int first, int count) {
    std::vector<std::unique_ptr<LinearWeight>> owned;
    std::vector<const LinearWeight*> views;
    for (std::size_t i = 0; i < data.size(); ++i) {
      const bool down = i >= 2 * kExperts;
      owned.push_back(pack(backend, p, type(), down ? cols : inner, down ? inner : cols, data[i]));
      views.push_back(owned.back().get());
    }
    const Guarded<const LinearWeight*> weights(p, std::span<const LinearWeight* const>(views));
    const std::span<const LinearWeight* const> all = weights;
    const Guarded<float> in = rows_of(p, x, cols, first, count), shares = rows_of(p, share, kPerToken, first, count),
                         inner_bias(p, std::span(bias).first(static_cast<std::size_t>(kExperts * inner))),
                         outer_bias(p, std::span(bias).first(static_cast<std::size_t>(kExperts * cols))),
                         out(p, static_cast<std::size_t>(count * cols));
    const Guarded<std::int32_t> chosen(p, std::span(choice).subspan(static_cast<std::size_t>(first * kPerToken),
                                                                    static_cast<std::size_t>(count * kPerToken)));
    backend.experts({.x = {in.data(), count, cols},
                     .experts = {chosen.data(), count, kPerToken},
                     .weights = {shares.data(), count, kPerToken},
                     .gate = {all.subspan(0, kExperts), inner_bias.data()},
                     .up = {all.subspan(kExperts, kExperts), inner_bias.data()},
                     .down = {all.subspan(2 * kExperts, kExperts), outer_bias.data()},
                     .y = {out.data(), count, cols}});
    return bytes_of(out);
  });
}

TEST_P(WeightTest, Embed) {
  const auto [rows, cols] = sizes(type())[0];
  const Bytes data = random_weights(type(), rows, cols, rng_);
  expect_rows_alone(isa(), Compute::kAuto, "", [&](Backend& backend, Placement p, int first, int count) {
    const auto table = pack(backend, p, type(), rows, cols, data);
    const Guarded<TokenId> ids(p, static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = static_cast<TokenId>((first + i) * 5 % rows);
    const Guarded<float> out(p, static_cast<std::size_t>(count * cols));
    backend.embed(*table, ids, 1.5f, {out.data(), count, cols});
    return bytes_of(out);
  });
}

INSTANTIATE_TEST_SUITE_P(EveryOp, WeightTest,
                         ::testing::Combine(::testing::ValuesIn(kWeightTypes), ::testing::ValuesIn(tried_isas())),
                         [](const auto& info) { return label(info); });

struct Heads {
  int heads, kv_heads, dim, block_tokens, window;
  float softcap;
  int value_dim = 0;  // > 0: of values, which lie in keys

  int64_t width() const { return int64_t{heads} * dim; }
  int64_t out_width() const { return int64_t{heads} * (value_dim > 0 ? value_dim : dim); }
  int64_t kv_width() const { return int64_t{kv_heads} * dim; }
  int64_t value_width() const { return value_dim > 0 ? 0 : kv_width(); }
  int64_t both() const { return kv_width() + value_width(); }
  int blocks(int tokens) const { return (tokens + block_tokens - 1) / block_tokens; }
};

constexpr Heads kHeads[] = {
    {.heads = 5, .kv_heads = 1, .dim = 24, .block_tokens = 5, .window = 0, .softcap = 0.0f},
    {.heads = 4, .kv_heads = 2, .dim = 80, .block_tokens = 16, .window = 37, .softcap = 5.0f},
    {.heads = 6, .kv_heads = 3, .dim = 8, .block_tokens = 1, .window = 0, .softcap = 0.0f},
    {.heads = 16, .kv_heads = 1, .dim = 576, .block_tokens = 16, .window = 0, .softcap = 0.0f, .value_dim = 512},
    {.heads = 3, .kv_heads = 1, .dim = 40, .block_tokens = 3, .window = 33, .softcap = 0.0f, .value_dim = 24},
};

// Paged keys and values of some sequences, no block more than they need, each in an order of its own.
class PagedKv {
 public:
  PagedKv(Placement placement, const Heads& heads, DType type, std::span<const std::int32_t> lengths)
      : heads_(heads),
        longest_(heads.blocks(*std::max_element(lengths.begin(), lengths.end()))),
        tables_(placement, lengths.size() * static_cast<std::size_t>(longest_)),
        arena_(placement, static_cast<std::size_t>(total(lengths) * layer_bytes(type))) {
    std::memset(arena_.data(), 0xff, arena_.size());  // NaN of every type
    view_ = {arena_.data(), layer_bytes(type), heads.block_tokens, heads.kv_heads, heads.dim,
             type,          heads.value_dim,   heads.value_dim > 0};
    std::int32_t next = total(lengths);
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      for (int b = 0; b < longest_; ++b) at(s, b) = b < heads.blocks(lengths[s]) ? --next : -1;
    }
  }

  // `values` [tokens, both]: a key and, where it does not lie in it, a value each.
  void write(Backend& backend, Placement placement, std::size_t sequence, int tokens, const float* values) {
    const int64_t width = heads_.kv_width(), value_width = heads_.value_width(), row = heads_.both();
    const Guarded<float> both(placement, std::span(values, static_cast<std::size_t>(tokens * row)));
    const Guarded<int64_t> slots(placement, static_cast<std::size_t>(tokens));
    for (int t = 0; t < tokens; ++t)
      slots[static_cast<std::size_t>(t)] =
          int64_t{at(sequence, t / heads_.block_tokens)} * heads_.block_tokens + t % heads_.block_tokens;
    backend.kv_write(
        {{both.data(), tokens, width, row}, {both.data() + width, tokens, value_width, row}, view_, slots});
  }

  void forget_before(std::size_t sequence, int position) {
    for (int b = 0; (b + 1) * heads_.block_tokens <= position; ++b) at(sequence, b) = -1;
  }

  std::int32_t& at(std::size_t sequence, int block) const {
    return tables_[sequence * static_cast<std::size_t>(longest_) + static_cast<std::size_t>(block)];
  }
  Matrix<const std::int32_t> tables() const {
    return {tables_.data(), static_cast<int64_t>(tables_.size()) / longest_, longest_};
  }
  const KvLayerView& view() const { return view_; }
  const Guarded<std::byte>& arena() const { return arena_; }

 private:
  int64_t layer_bytes(DType type) const { return heads_.block_tokens * tensor::row_bytes(type, heads_.both()); }
  std::int32_t total(std::span<const std::int32_t> lengths) const {
    std::int32_t blocks = 0;
    for (const std::int32_t length : lengths) blocks += heads_.blocks(length);
    return blocks;
  }

  Heads heads_;
  int longest_;
  Guarded<std::int32_t> tables_;
  Guarded<std::byte> arena_;
  KvLayerView view_;
};

class KvTest : public WeightTest {};

Bytes attend(Backend& backend, Placement p, const Heads& heads, const PagedKv& kv, std::span<const std::int32_t> starts,
             std::span<const std::int32_t> lengths, const Guarded<float>& q) {
  const Guarded<std::int32_t> guarded_starts(p, starts), guarded_lengths(p, lengths);
  const int64_t rows = starts.back();
  const Guarded<float> out(p, static_cast<std::size_t>(rows * heads.out_width()));
  backend.attention({.q = {q.data(), rows, heads.width()},
                     .kv = kv.view(),
                     .heads = heads.heads,
                     .query_starts = guarded_starts,
                     .seq_lens = guarded_lengths,
                     .block_tables = kv.tables(),
                     .window = heads.window,
                     .scale = 0.2f,
                     .softcap = heads.softcap,
                     .out = {out.data(), rows, heads.out_width()}});
  return bytes_of(out);
}

// A row is a sequence that decodes.
TEST_P(KvTest, DecodingAttention) {
  for (const Heads& heads : kHeads) {
    std::vector<std::int32_t> lengths, starts;
    for (int s = 0; s < kRows; ++s) lengths.push_back(s % 32 == 5 ? 530 + s : 1 + s * 53 % 100);
    for (int s = 0; s <= kRows; ++s) starts.push_back(s);
    const auto q = random_floats(kRows * heads.width(), rng_), values = random_floats(700 * heads.both(), rng_);
    expect_rows_alone(
        isa(), Compute::kAuto, std::to_string(heads.dim), [&](Backend& backend, Placement p, int first, int count) {
          const auto mine =
              std::span(lengths).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
          PagedKv kv(p, heads, type(), mine);
          for (std::size_t s = 0; s < mine.size(); ++s) {
            kv.write(backend, p, s, mine[s], values.data() + (first + static_cast<int>(s)) * heads.kv_width());
            if (heads.window > 0) kv.forget_before(s, mine[s] - heads.window);
          }
          return attend(backend, p, heads, kv, std::span(starts).first(static_cast<std::size_t>(count) + 1), mine,
                        rows_of(p, q, heads.width(), first, count));
        });
  }
}

// A row is a token of one prompt, which comes after others.
TEST_P(KvTest, PrefillAttention) {
  constexpr int kBefore = 90;
  for (const Heads& heads : kHeads) {
    const auto q = random_floats(kRows * heads.width(), rng_),
               values = random_floats((kBefore + kRows) * heads.both(), rng_);
    expect_rows_alone(
        isa(), Compute::kAuto, std::to_string(heads.dim), [&](Backend& backend, Placement p, int first, int count) {
          const std::vector<std::int32_t> lengths = {kBefore + first + count}, starts = {0, count};
          PagedKv kv(p, heads, type(), lengths);
          kv.write(backend, p, 0, lengths[0], values.data());
          if (heads.window > 0) kv.forget_before(0, kBefore + first + 1 - heads.window);
          return attend(backend, p, heads, kv, starts, lengths, rows_of(p, q, heads.width(), first, count));
        });
  }
}

// A row is a token whose keys and values are stored, in a block of one token.
TEST_P(KvTest, KvWrite) {
  const Heads heads = {.heads = 3, .kv_heads = 3, .dim = 24, .block_tokens = 1, .window = 0, .softcap = 0};
  const auto values = random_floats(kRows * 2 * heads.kv_width(), rng_);
  expect_rows_alone(isa(), Compute::kAuto, "", [&](Backend& backend, Placement p, int first, int count) {
    const std::vector<std::int32_t> lengths = {count};
    PagedKv kv(p, heads, type(), lengths);
    kv.write(backend, p, 0, count, values.data() + first * 2 * heads.kv_width());
    Bytes stored;
    for (int t = 0; t < count; ++t) {
      const std::byte* block = kv.arena().data() + kv.at(0, t) * kv.view().block_stride;
      stored.insert(stored.end(), block, block + kv.view().block_stride);
    }
    return stored;
  });
}

INSTANTIATE_TEST_SUITE_P(EveryOp, KvTest,
                         ::testing::Combine(::testing::ValuesIn(kKvTypes), ::testing::ValuesIn(tried_isas())),
                         [](const auto& info) { return label(info); });

class RowTest : public ::testing::TestWithParam<Isa> {
 protected:
  // An operation on rows of `cols` numbers in place, beside `weight` of as many.
  void check(int64_t cols,
             const std::function<void(Backend&, Matrix<float>, const float*, Placement, int first)>& operation) {
    const auto x = random_floats(kRows * cols, rng_), weight = random_floats(cols, rng_);
    expect_rows_alone(GetParam(), Compute::kAuto, std::to_string(cols),
                      [&](Backend& backend, Placement p, int first, int count) {
                        const Guarded<float> rows = rows_of(p, x, cols, first, count), weights(p, std::span(weight));
                        operation(backend, {rows.data(), count, cols}, weights.data(), p, first);
                        return bytes_of(rows);
                      });
  }

  std::mt19937 rng_{23};
};

TEST_P(RowTest, RmsNorm) {
  for (const int64_t cols : {1, 15, 17, 579}) {
    for (const bool accumulate : {false, true}) {
      check(cols, [&](Backend& backend, Matrix<float> x, const float* weight, Placement p, int) {
        const Guarded<float> from(p, std::span<const float>(x.data, static_cast<std::size_t>(x.rows * cols)));
        backend.rms_norm({from.data(), x.rows, cols}, weight, 1e-5f, x, accumulate);
      });
    }
  }
}

TEST_P(RowTest, HeadNormRope) {
  constexpr int kPositions = 70;
  struct Case {
    int dim, rotated;
    bool adjacent;
  };
  for (const auto [dim, rotated, adjacent] :
       {Case{8, 8, true}, Case{24, 24, false}, Case{80, 20, false}, Case{40, 26, true}, Case{24, 0, false}}) {
    const auto angles = random_floats(kPositions * rotated / 2, rng_);
    check(3 * dim, [&](Backend& backend, Matrix<float> x, const float* weight, Placement p, int first) {
      const Guarded<float> cos(p, std::span(angles)), sin(p, std::span(angles)),
          norm(p, std::span(weight, static_cast<std::size_t>(dim)));
      const RopeTable table = {cos.data(), sin.data(), kPositions, rotated, adjacent};
      const Guarded<std::int32_t> positions(p, static_cast<std::size_t>(x.rows));
      for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = (first + static_cast<int>(i)) * 11 % kPositions;
      backend.head_norm_rope({x, dim, norm.data(), 0, 1e-5f, rotated > 0 ? &table : nullptr, 0, positions});
    });
  }
}

TEST_P(RowTest, LayerNormAndGates) {
  for (const int64_t cols : {1, 15, 17, 579}) {
    check(cols, [&](Backend& backend, Matrix<float> x, const float* weight, Placement p, int) {
      const Guarded<float> from(p, std::span<const float>(x.data, static_cast<std::size_t>(x.rows * cols)));
      backend.layer_norm({from.data(), x.rows, cols}, weight, weight, 1e-5f, x);
      backend.add(
          {.from = {from.data(), x.rows, cols}, .scale = 0.5f, .gate = {from.data(), x.rows, 1, cols}, .to = x});
      backend.multiply_sigmoid({from.data(), x.rows, cols}, x);
      backend.clamp(0.5f, x);
      backend.multiply_silu({from.data(), x.rows, cols}, x);
    });
  }
}

TEST_P(RowTest, Route) {
  for (const auto scores :
       {RouteCall::Scores::kSoftmax, RouteCall::Scores::kSigmoid, RouteCall::Scores::kSoftmaxOfChosen}) {
    check(12, [&](Backend& backend, Matrix<float> x, const float* weight, Placement p, int) {
      const Guarded<float> weights(p, static_cast<std::size_t>(x.rows * 4)), bias(p, std::span(weight, 12));
      const Guarded<std::int32_t> experts(p, static_cast<std::size_t>(x.rows * 4));
      backend.route({.logits = x,
                     .scores = scores,
                     .correction = bias.data(),
                     .groups = 3,
                     .groups_used = 2,
                     .group_by_two = true,
                     .experts = {experts.data(), x.rows, 4},
                     .weights = {weights.data(), x.rows, 4}});
      for (int64_t t = 0; t < x.rows; ++t) {
        for (int i = 0; i < 4; ++i) {
          x.row(t)[i] = weights.data()[t * 4 + i];
          x.row(t)[4 + i] = static_cast<float>(experts.data()[t * 4 + i]);
        }
      }
    });
  }
}

TEST_P(RowTest, Softcap) {
  for (const int64_t cols : {1, 7, 33, 4099})
    check(cols, [](Backend& backend, Matrix<float> x, const float*, Placement, int) { backend.softcap(x, 3.0f); });
}

TEST_P(RowTest, GatherRows) {
  for (const int64_t cols : {1, 37}) {
    check(cols, [&](Backend& backend, Matrix<float> x, const float*, Placement p, int) {
      const Guarded<float> from(p, std::span<const float>(x.data, static_cast<std::size_t>(x.rows * cols)));
      const Guarded<std::int32_t> order(p, static_cast<std::size_t>(x.rows));
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
      backend.gather_rows({from.data(), x.rows, cols}, order, x);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(EveryOp, RowTest, ::testing::ValuesIn(tried_isas()),
                         [](const auto& info) { return label(info); });

}  // namespace
}  // namespace weir::backend::cpu
