#include "backend/cpu/linear/linear.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/half.h"

namespace weir::backend::cpu::linear {
namespace {

using std::int64_t;

// Up to this many rows every worker prepares all of them for itself: cheaper than a fork and a join.
constexpr int64_t kPrivateRows = 2;
// From this many rows BF16 weights take matrix tiles, which read them as they are.
constexpr int64_t kBf16GemmRows = 6;
// BF16 weights with fewer inputs than this meet activations as two BF16 terms. Such matrices cost little either way,
// and one term moves the logprobs of small models by up to 0.13; wider ones belong to models that are trained, and run
// everywhere, with activations of one term.
constexpr int64_t kOneTermInputs = 1024;
// Prepared activations of a block of rows should stay in a second-level cache beside the weights streaming past.
constexpr int64_t kActivationBytes = int64_t{3} << 19;
constexpr int64_t kMaxRowsAtOnce = 512;

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

int64_t bf16_terms(int64_t cols) {
  return cols < kOneTermInputs ? 2 : 1;
}

// Even groups of at most `most` rows.
int64_t group_rows(int64_t rows, int64_t most) {
  const int64_t groups = (rows + most - 1) / most;
  return (rows + groups - 1) / groups;
}

template <class T>
T* take(std::byte* base, std::size_t* at, int64_t count) {
  auto* start = base == nullptr ? nullptr : reinterpret_cast<T*>(base + *at);
  *at += static_cast<std::size_t>(round_up(count * static_cast<int64_t>(sizeof(T)), 64));
  return start;
}

}  // namespace

const Kernels& kernels_for(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return kScalarKernels;
    case Isa::kAvx2:
      return kAvx2Kernels;
    case Isa::kAvx2Vnni:
      return kAvx2VnniKernels;
    case Isa::kAvx512:
      return kAvx512Kernels;
    case Isa::kAvx512Vnni: {
      static const bool by_fma = bf16_by_fma() != 0;
      return by_fma ? kAvx512VnniFmaKernels : kAvx512VnniKernels;
    }
    case Isa::kAmx:
      return kAmxKernels;
  }
  CHECK(false, "ISA {}", static_cast<int>(isa));
}

LinearLayers::LinearLayers(ThreadPool& pool, const Kernels& kernels, Compute compute)
    : pool_(pool),
      kernels_(kernels),
      compute_(compute),
      workers_(static_cast<std::size_t>(pool.threads())),
      shares_(pool.threads()) {
  for (Worker& worker : workers_)
    worker.scratch = Memory(std::max<std::size_t>(kGemmScratch, kExactBlocks * kBlock * kPanel * sizeof(float)));
}

LinearLayers::Kind LinearLayers::kind_of(const PackedWeight& weight) const {
  if (compute_ == Compute::kExact || weight.format() == linear::kFloat8) return kFloat;
  if (is_quantised(weight.format())) return kQuant;
  return weight.format() == linear::kBF16 && kernels_.bf16_rows > 0 ? kBf16 : kFloat;
}

void LinearLayers::add_needs(const PackedWeight& weight, Needs* needs) const {
  const Kind kind = kind_of(weight);
  needs->kind[kind] = true;
  if (kind != kQuant) return;
  const Form& form = kForm[weight.format()];
  needs->offset8 |= form.zero == 8;
  needs->offset16 |= form.zero == 16;
  needs->offset32 |= form.zero == 32;
  needs->offset128 |= form.zero == 128 && form.halves == 1;
  needs->offset128_half |= form.zero == 128 && form.halves == 2;
  needs->s_half |= has_min(weight.format()) && form.halves == 2;
}

// Even blocks: a small rest would read all weights for few rows.
int64_t LinearLayers::rows_at_once(int64_t rows, int64_t cols, const Needs& needs) const {
  int64_t most = kMaxRowsAtOnce;
  // The kernels for many rows take a slice of the inputs at a time: however many there are, those of a slice fit a
  // cache.
  const bool slices = !(needs.kind[kQuant] && kernels_.gemm_rows == 0) &&
                      !(needs.kind[kBf16] && kernels_.bf16_gemm == nullptr) && !needs.kind[kFloat];
  if (!slices) {
    const int64_t row_bytes = cols * (needs.kind[kFloat] ? 4 : needs.kind[kBf16] ? 2 * bf16_terms(cols) : 1);
    most = std::clamp<int64_t>(kActivationBytes / row_bytes / 16 * 16, 48, kMaxRowsAtOnce);
  }
  return std::min(rows, round_up(group_rows(rows, most), 16));
}

LinearLayers::Activations LinearLayers::plan(const Needs& needs, int64_t rows, int64_t cols, std::byte* base,
                                             std::size_t* bytes) const {
  Activations a;
  a.rows = rows;
  a.cols = cols;
  a.gemm[kQuant] = kernels_.gemm_rows > 0 && rows >= kernels_.gemm_rows;
  a.gemm[kBf16] = rows >= (needs.kind[kQuant] ? kernels_.gemm_rows : kBf16GemmRows) && kernels_.bf16_gemm != nullptr;
  a.padded[kQuant] = a.gemm[kQuant] && !kernels_.gemm_tiles;
  a.padded[kBf16] = a.gemm[kBf16];
  const auto whole_tiles = [&](Kind kind, int64_t count) { return a.padded[kind] ? round_up(count, 16) : count; };
  a.sum_rows = rows;
  std::size_t at = 0;
  if (needs.kind[kQuant]) {
    const int64_t blocks = cols / kBlock;
    a.group[kQuant] = a.padded[kQuant] ? 16 : group_rows(rows, kernels_.quant_rows);
    const int64_t padded = whole_tiles(kQuant, rows);
    a.sum_rows = padded;
    a.quant.blocks = blocks;
    a.quant.a = take<std::int8_t>(base, &at, padded * cols);
    a.quant.d = take<float>(base, &at, padded * blocks);
    a.quant.s = take<float>(base, &at, padded * blocks);
    for (float*& half : a.quant.s_half) half = needs.s_half ? take<float>(base, &at, padded * blocks) : nullptr;
    if (!a.padded[kQuant]) {
      const auto offset = [&](bool needed) {
        return needed ? take<std::int32_t>(base, &at, padded * blocks) : nullptr;
      };
      a.quant.offset8 = offset(needs.offset8);
      a.quant.offset16 = offset(needs.offset16);
      a.quant.offset32[0] = offset(needs.offset32);
      a.quant.offset32[1] = offset(needs.offset32);
      a.quant.offset128 = offset(needs.offset128);
      for (std::int32_t*& half : a.quant.offset128_half) half = offset(needs.offset128_half);
    }
  }
  if (needs.kind[kFloat]) {
    a.group[kFloat] = group_rows(rows, kernels_.float_rows);
    a.floats = take<float>(base, &at, rows * cols);
  }
  if (needs.kind[kBf16]) {
    const int64_t padded = round_up(cols, kBlock);
    a.bf16_rows = bf16_terms(cols) * rows;
    const int64_t tile_rows = whole_tiles(kBf16, a.bf16_rows);
    a.sum_rows = std::max(a.sum_rows, tile_rows);
    a.group[kBf16] = a.gemm[kBf16] ? 16 : group_rows(a.bf16_rows, kernels_.bf16_rows);
    if (a.gemm[kBf16] || !kernels_.bf16_wide) {
      a.bf16 = take<std::uint16_t>(base, &at, tile_rows * padded);
    } else {
      a.bf16_wide = take<float>(base, &at, a.bf16_rows * padded);
    }
  }
  *bytes = at;
  return a;
}

void LinearLayers::prepare_row(const Input& input, int64_t first, int64_t row, const Activations& to,
                               Worker& worker) const {
  const int64_t cols = to.cols;
  auto* copy = floats(worker.row);
  const float* x = input.x.row(input.index == nullptr ? first + row : input.index[first + row]);
  if (input.norm_weight != nullptr) {
    kernels_.norm_row(x, input.norm_weight, input.norm_eps, cols, copy, false);
    x = copy;
  }
  if (to.group[kQuant] > 0) {
    const int64_t group = to.group[kQuant], g = row / group, r = row % group;
    const int64_t in_group = to.padded[kQuant] ? 16 : std::min(group, to.rows - g * group);
    const int64_t blocks = to.quant.blocks, at = g * group * blocks + r;
    QuantRow q = to.quant;
    const auto shift = [at](auto* p) { return p == nullptr ? nullptr : p + at; };
    q.rows = in_group;
    q.a += g * group * cols + r * kBlock;
    q.d += at;
    q.s += at;
    q.offset8 = shift(q.offset8);
    q.offset16 = shift(q.offset16);
    q.offset128 = shift(q.offset128);
    for (int half = 0; half < 2; ++half) {
      q.s_half[half] = shift(q.s_half[half]);
      q.offset32[half] = shift(q.offset32[half]);
      q.offset128_half[half] = shift(q.offset128_half[half]);
    }
    kernels_.quantise_row(x, &q);
  }
  if (to.group[kFloat] > 0) {
    const int64_t group = to.group[kFloat], g = row / group, in_group = std::min(group, to.rows - g * group);
    float* out = to.floats + g * group * cols + row % group;
    for (int64_t k = 0; k < cols; ++k) out[k * in_group] = x[k];
  }
  if (to.group[kBf16] > 0) {
    const int64_t padded = round_up(cols, kBlock);
    const bool two_terms = to.bf16_rows > to.rows;
    if (x != copy && (two_terms || padded > cols)) {
      std::memcpy(copy, x, static_cast<std::size_t>(cols) * sizeof(float));
      x = copy;
    }
    std::fill(copy + cols, copy + padded, 0.0f);  // the weights' padding multiplies zeros
    place_bf16(x, row, to);
    if (!two_terms) return;
    for (int64_t k = 0; k < cols; ++k) copy[k] -= tensor::f32_from_bf16(tensor::bf16_from_f32(copy[k]));
    place_bf16(copy, to.rows + row, to);
  }
}

void LinearLayers::place_bf16(const float* x, int64_t row, const Activations& to) const {
  const int64_t group = to.group[kBf16], g = row / group, r = row % group,
                in_group = std::min(group, to.bf16_rows - g * group);
  const int64_t padded = round_up(to.cols, kBlock);
  if (to.gemm[kBf16]) {
    std::uint16_t* tiles = to.bf16 + g * group * padded + r * kBlock;  // [blocks][16 rows][32 inputs]
    for (int64_t k = 0; k < to.cols; k += kBlock) kernels_.round_bf16(x + k, kBlock / 2, 1, tiles + k * 16);
  } else if (to.bf16_wide != nullptr) {
    kernels_.round_bf16_wide(x, padded / 2, in_group, to.bf16_wide + g * group * padded + 2 * r);
  } else {
    kernels_.round_bf16(x, padded / 2, in_group, to.bf16 + g * group * padded + 2 * r);
  }
}

template <class Items, class F>
void LinearLayers::for_row_blocks(const Input& input, const Needs& needs, Items&& items, F&& multiply) {
  const int64_t rows = input.x.rows, cols = input.x.cols;
  if (rows == 0) return;
  const int64_t step = rows_at_once(rows, cols, needs);
  std::size_t bytes = 0, last = 0;  // the last, smaller block may be laid out differently
  plan(needs, step, cols, nullptr, &bytes);
  plan(needs, rows - (rows - 1) / step * step, cols, nullptr, &last);
  bytes = std::max(bytes, last);
  const bool own = rows <= kPrivateRows;
  grow(&activations_, own ? bytes * workers_.size() : bytes);
  reserve_sums(step);
  reserve_row(cols);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    std::size_t used = 0;
    const Activations shared = plan(needs, count, cols, activations_.data(), &used);
    for (int w = 0; w < pool_.threads(); ++w) shares_.open(w, static_cast<std::int32_t>(items(w, shared)));
    if (!own) {
      pool_.run([&](int w, int workers) {
        const Range mine = share(count, w, workers);
        for (int64_t row = mine.begin; row < mine.end; ++row) prepare_row(input, first, row, shared, workers_[w]);
      });
    }
    pool_.run([&](int w, int) {
      std::optional<WorkShares::Item> item = shares_.take(w);
      if (!item) return;
      Activations a = shared;
      if (own) {
        std::size_t ignored = 0;
        a = plan(needs, count, cols, activations_.data() + bytes * static_cast<std::size_t>(w), &ignored);
        for (int64_t row = 0; row < count; ++row) prepare_row(input, first, row, a, workers_[w]);
      }
      for (; item; item = shares_.take(w)) multiply(w, *item, first, a);
    });
  }
}

void LinearLayers::reserve_row(int64_t cols) {
  for (Worker& worker : workers_) grow(&worker.row, static_cast<std::size_t>(round_up(cols, kBlock)) * sizeof(float));
}

std::size_t LinearLayers::sum_bytes(int64_t rows) {
  return static_cast<std::size_t>(2 * kGemmPanels * round_up(2 * rows, 16) * kPanel) * sizeof(float);
}

void LinearLayers::reserve_sums(int64_t rows) {
  for (Worker& worker : workers_) grow(&worker.sums, sum_bytes(rows));
}

std::size_t LinearLayers::scratch_bytes(int threads, int64_t rows, int64_t cols) {
  rows = std::min(rows, kMaxRowsAtOnce);
  // A byte an input; a scale and a sum for each block of them.
  const int64_t row_bytes = cols + cols / kBlock * 2 * static_cast<int64_t>(sizeof(float));
  return static_cast<std::size_t>(threads) * sum_bytes(rows) + static_cast<std::size_t>(rows * row_bytes);
}

void LinearLayers::linear(const LinearCall& call) {
  Needs needs;
  for (const LinearOutput& output : call.outputs) {
    CHECK(output.weight != nullptr && output.weight->cols() == call.x.cols, "{} inputs", call.x.cols);
    CHECK(output.y.rows == call.x.rows && output.y.cols == output.weight->rows(), "{} x {} for {} x {}", output.y.rows,
          output.y.cols, call.x.rows, output.weight->rows());
    add_needs(packed(*output.weight), &needs);
  }
  const int workers = pool_.threads();
  const auto share_of = [&](std::size_t output, int w) {
    return share(packed(*call.outputs[output].weight).panels(), w, workers);
  };
  const auto runs_of = [&](std::size_t output, int w, const Activations& a) {
    return runs(packed(*call.outputs[output].weight), share_of(output, w), a);
  };
  struct Place {
    std::size_t output = 0;
    PanelRun run;
  };
  const auto place = [&](int w, int64_t index, const Activations& a) {
    Place at;
    for (int64_t count; index >= (count = runs_of(at.output, w, a)); index -= count) ++at.output;
    at.run = run_at(packed(*call.outputs[at.output].weight), share_of(at.output, w), index, a);
    return at;
  };
  for_row_blocks(
      {call.x, call.norm_weight, call.norm_eps}, needs,
      [&](int w, const Activations& a) {
        int64_t count = 0;
        for (std::size_t i = 0; i < call.outputs.size(); ++i) count += runs_of(i, w, a);
        return count;
      },
      [&](int w, WorkShares::Item item, int64_t first, const Activations& a) {
        const Place at = place(item.owner, item.index, a);
        const std::int32_t next = shares_.next_own(w);
        multiply_run(call.outputs[at.output], at.run, next < 0 ? PanelRun{} : place(w, next, a).run, first, a, w);
      });
}

// Every worker does some heads alone: their matrices are small.
void LinearLayers::head_linear(const HeadLinearCall& call) {
  const auto heads = static_cast<int64_t>(call.weights.size());
  CHECK(heads > 0 && call.x.rows == call.y.rows, "{} heads, {} and {} rows", heads, call.x.rows, call.y.rows);
  const int64_t rows = call.x.rows, cols = call.weights[0]->cols(), outputs = call.weights[0]->rows();
  CHECK((heads - 1) * call.x_head + cols <= call.x.cols && (heads - 1) * call.y_head + outputs <= call.y.cols,
        "{} heads of {} to {}, at {} of {} and {} of {} columns", heads, cols, outputs, call.x_head, call.x.cols,
        call.y_head, call.y.cols);
  Needs needs;
  for (const LinearWeight* weight : call.weights) {
    CHECK(weight->rows() == outputs && weight->cols() == cols, "{} x {}, not {} x {}", weight->rows(), weight->cols(),
          outputs, cols);
    add_needs(packed(*weight), &needs);
  }
  if (rows == 0) return;
  const int64_t step = rows_at_once(rows, cols, needs);
  std::size_t bytes = 0, last = 0;
  plan(needs, step, cols, nullptr, &bytes);
  plan(needs, rows - (rows - 1) / step * step, cols, nullptr, &last);
  bytes = std::max(bytes, last);
  grow(&activations_, bytes * workers_.size());
  reserve_sums(step);
  reserve_row(cols);
  const auto share_of = [&](int w) { return share(heads, w, pool_.threads()); };
  for (int w = 0; w < pool_.threads(); ++w)
    shares_.open(w, static_cast<std::int32_t>(share_of(w).end - share_of(w).begin));
  pool_.run([&](int w, int) {
    std::byte* memory = activations_.data() + bytes * static_cast<std::size_t>(w);
    Worker& worker = workers_[static_cast<std::size_t>(w)];
    while (const std::optional<WorkShares::Item> item = shares_.take(w)) {
      const int64_t head = share_of(item->owner).begin + item->index;
      const PackedWeight& weight = packed(*call.weights[static_cast<std::size_t>(head)]);
      const Input input = {{call.x.data + head * call.x_head, rows, cols, call.x.stride}, nullptr, 0.0f};
      const LinearOutput output = {
          &weight, nullptr, {call.y.data + head * call.y_head, rows, outputs, call.y.stride}, false};
      for (int64_t first = 0; first < rows; first += step) {
        std::size_t ignored = 0;
        const Activations a = plan(needs, std::min(step, rows - first), cols, memory, &ignored);
        for (int64_t row = 0; row < a.rows; ++row) prepare_row(input, first, row, a, worker);
        multiply_share(output, {0, weight.panels()}, first, a, w);
      }
    }
  });
}

void LinearLayers::gated_linear(const GatedLinearCall& call) {
  CHECK(call.gate->rows() == call.up->rows() && call.gate->cols() == call.x.cols && call.up->cols() == call.x.cols);
  CHECK(call.y.rows == call.x.rows && call.y.cols == call.gate->rows(), "{} x {}", call.y.rows, call.y.cols);
  const PackedWeight& gate = packed(*call.gate);
  const PackedWeight& up = packed(*call.up);
  Needs needs;
  add_needs(gate, &needs);
  add_needs(up, &needs);
  const auto share_of = [&](int w) { return share(gate.panels(), w, pool_.threads()); };
  for_row_blocks(
      {call.x, call.norm_weight, call.norm_eps}, needs,
      [&](int w, const Activations& a) { return runs(gate, share_of(w), a); },
      [&](int w, WorkShares::Item item, int64_t first, const Activations& a) {
        const PanelRun run = run_at(gate, share_of(item.owner), item.index, a);
        const std::int32_t next = shares_.next_own(w);
        multiply_gated_run(call, run, next < 0 ? PanelRun{} : run_at(gate, share_of(w), next, a), first, a, w);
      });
}

void LinearLayers::embed(const LinearWeight& table, std::span<const TokenId> ids, float scale, Matrix<float> out) {
  const PackedWeight& weight = packed(table);
  const auto count = static_cast<int64_t>(ids.size());
  CHECK(out.rows == count && out.cols == weight.cols(), "{} x {} for {} x {}", out.rows, out.cols, count,
        weight.cols());
  for (const TokenId id : ids) CHECK(id >= 0 && id < weight.rows(), "token {} of {}", id, weight.rows());
  pool_.run([&](int w, int workers) {
    const Range mine = share(count, w, workers);
    for (int64_t i = mine.begin; i < mine.end; ++i)
      weight.dequantise_row(ids[static_cast<std::size_t>(i)], scale, out.row(i));
  });
}

void LinearLayers::rms_norm(Matrix<const float> x, const float* weight, float eps, Matrix<float> out, bool accumulate) {
  CHECK(x.rows == out.rows && x.cols == out.cols, "{} x {} to {} x {}", x.rows, x.cols, out.rows, out.cols);
  pool_.run([&](int w, int workers) {
    const Range mine = share(x.rows, w, workers);
    for (int64_t i = mine.begin; i < mine.end; ++i)
      kernels_.norm_row(x.row(i), weight, eps, x.cols, out.row(i), accumulate);
  });
}

}  // namespace weir::backend::cpu::linear
