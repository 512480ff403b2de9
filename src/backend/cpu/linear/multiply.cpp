// A worker's panels against prepared activations.
#include <algorithm>

#include "backend/cpu/linear/linear.h"

namespace weir::backend::cpu::linear {
namespace {

using std::int64_t;
using std::uint8_t;

constexpr int64_t kTileRows = 16;  // of matrix tiles
// What matrix tiles take at first of a panel that comes next, at most.
constexpr int64_t kGemmAheadBytes = 8192;

// What is read of a panel at a time, at most. A run's panels are read ahead by so much each: 24 KiB of a first-level
// cache of 32 or more, where further groups of rows find it again (16 rows of Q4_0 25 % faster than panel by panel,
// Emerald Rapids).
constexpr int64_t kChunkBytes = 3072;

// Blocks of a run's panels done at a time: a divisor of the number of panels, so that each panel's tile can ask for an
// equal part of the next blocks of all panels.
int64_t chunk_blocks(const PackedWeight& weight, int64_t panels) {
  int64_t blocks = panels;
  while (blocks > 1 && (panels % blocks != 0 || blocks * weight.block_bytes() > kChunkBytes)) --blocks;
  return blocks;
}

const uint8_t* codes_of(const PackedWeight& weight, int64_t panel, int64_t block) {
  return weight.panel(panel) + weight.codes_at() + block * weight.block_bytes();
}

// Where there is nothing more to come: what is in the cache already.
Ahead nothing_ahead(const uint8_t* codes) {
  return {.codes = codes, .stride = 0, .block = 0, .shared = 1, .scales = nullptr, .scale_bytes = 0};
}

// Which of the activations' sums a format's kernels take.
struct HalfSums {
  const float* s[2];
  const std::int32_t* offset[2];
};

HalfSums half_sums(Format format, const QuantRow& a) {
  const Form& form = kForm[format];
  HalfSums sums = {{a.s, nullptr}, {nullptr, nullptr}};
  if (form.halves == 2) {
    if (has_min(format)) sums.s[0] = a.s_half[0], sums.s[1] = a.s_half[1];
    const auto& offset = form.zero == 32 ? a.offset32 : a.offset128_half;
    if (form.zero != 0) sums.offset[0] = offset[0], sums.offset[1] = offset[1];
  } else {
    sums.offset[0] = form.zero == 8     ? a.offset8
                     : form.zero == 16  ? a.offset16
                     : form.zero == 128 ? a.offset128
                                        : nullptr;
  }
  return sums;
}

template <class T>
const T* shifted(const T* from, int64_t by) {
  return from == nullptr ? nullptr : from + by;
}

// Calls store(first row, rows).
template <class F>
GroupsDone groups_done(const F& store) {
  const auto call = [](const void* context, int64_t group, int64_t groups) {
    const int64_t first = group * kTileRows, rows = groups * kTileRows;
    (*static_cast<const F*>(context))(first, rows);
  };
  return {call, &store};
}

}  // namespace

int64_t LinearLayers::most_panels(Kind kind, const Activations& a) const {
  return a.gemm[kind] ? kGemmPanels : kRunPanels;
}

int64_t LinearLayers::runs(const PackedWeight& weight, Range panels, const Activations& a) const {
  const int64_t most = most_panels(kind_of(weight), a);
  return (panels.end - panels.begin + most - 1) / most;
}

LinearLayers::PanelRun LinearLayers::run_at(const PackedWeight& weight, Range panels, int64_t index,
                                            const Activations& a) const {
  const Range part =
      share(panels.end - panels.begin, static_cast<int>(index), static_cast<int>(runs(weight, panels, a)));
  return {&weight, panels.begin + part.begin, part.end - part.begin};
}

template <class F>
void LinearLayers::each_tile(const PanelRun& run, const PanelRun& next, int64_t blocks, int64_t rows, int64_t group,
                             F&& tile) {
  const PackedWeight& weight = *run.weight;
  const int64_t chunk = chunk_blocks(weight, run.count);
  for (int64_t b = 0; b < blocks; b += chunk) {
    const bool last = b + chunk >= blocks;
    const PanelRun& then = last ? next : run;
    const Panels panels = {.scales = weight.panel(run.panel),
                           .codes = codes_of(weight, run.panel, b),
                           .stride = weight.panel_bytes(),
                           .count = static_cast<int>(run.count)};
    const Ahead nothing = nothing_ahead(panels.codes);
    Ahead ahead = nothing;
    if (then.weight != nullptr) {
      const int64_t at = last ? 0 : b + chunk;
      ahead = {.codes = codes_of(*then.weight, then.panel, at),
               .stride = then.weight->panel_bytes(),
               .block = then.weight->block_bytes(),
               .shared = static_cast<int>(run.count / chunk),
               .scales = then.weight->panel(then.panel) + at * then.weight->block_scale_bytes(),
               .scale_bytes = chunk * then.weight->block_scale_bytes()};
    }
    for (int64_t row = 0; row < rows; row += group)
      tile(panels, b, std::min(chunk, blocks - b), row, std::min(group, rows - row), row == 0 ? ahead : nothing);
  }
}

void LinearLayers::multiply_quant(const PanelRun& run, const PanelRun& next, const Activations& a, float* sums) const {
  const Format format = run.weight->format();
  const int64_t blocks = run.weight->blocks();
  const HalfSums sums_of = half_sums(format, a.quant);
  each_tile(run, next, blocks, a.rows, a.group[kQuant],
            [&](const Panels& panels, int64_t first, int64_t count, int64_t row, int64_t rows, const Ahead& ahead) {
              const int64_t at = row * blocks + first * rows;
              const QuantTile tile = {.panels = panels,
                                      .first = first,
                                      .blocks = count,
                                      .rows = static_cast<int>(rows),
                                      .group_shift = run.weight->group_shift(),
                                      .table = run.weight->table(),
                                      .a = a.quant.a + at * kBlock,
                                      .d = a.quant.d + at,
                                      .s = sums_of.s[0] + at,
                                      .s2 = shifted(sums_of.s[1], at),
                                      .offset = shifted(sums_of.offset[0], at),
                                      .offset2 = shifted(sums_of.offset[1], at),
                                      .ahead = ahead,
                                      .acc = sums + row * kPanel,
                                      .acc_stride = a.sum_rows * kPanel};
              kernels_.quant_tile[format](&tile);
            });
}

void LinearLayers::multiply_float(const PanelRun& run, const PanelRun& next, const Activations& a, float* sums) const {
  const auto kernel = kernels_.float_tile[run.weight->format()];
  each_tile(run, next, (a.cols + kBlock - 1) / kBlock, a.rows, a.group[kFloat],
            [&](const Panels& panels, int64_t first, int64_t count, int64_t row, int64_t rows, const Ahead& ahead) {
              const FloatTile tile = {.panels = panels,
                                      .inputs = std::min(count * kBlock, a.cols - first * kBlock),
                                      .rows = static_cast<int>(rows),
                                      .a = a.floats + row * a.cols + first * kBlock * rows,
                                      .ahead = ahead,
                                      .acc = sums + row * kPanel,
                                      .acc_stride = a.sum_rows * kPanel};
              kernel(&tile);
            });
}

void LinearLayers::multiply_bf16(const PanelRun& run, const PanelRun& next, const Activations& a, float* sums) const {
  const int64_t blocks = (a.cols + kBlock - 1) / kBlock, padded = blocks * kBlock;
  each_tile(run, next, blocks, a.bf16_rows, a.group[kBf16],
            [&](const Panels& panels, int64_t first, int64_t count, int64_t row, int64_t rows, const Ahead& ahead) {
              const int64_t at = row * padded + first * kBlock * rows;
              const void* x = a.bf16_wide != nullptr ? static_cast<const void*>(a.bf16_wide + at) : a.bf16 + at;
              const Bf16Tile tile = {.panels = panels,
                                     .pairs = count * kBlock / 2,
                                     .rows = static_cast<int>(rows),
                                     .a = x,
                                     .ahead = ahead,
                                     .acc = sums + row * kPanel,
                                     .acc_stride = a.sum_rows * kPanel};
              kernels_.bf16_tile(&tile);
            });
}

// Quantised weights as the file defines them, against F32 activations.
void LinearLayers::multiply_exact(const PanelRun& run, const Activations& a, Worker& worker, float* sums) const {
  const PackedWeight& weight = *run.weight;
  auto* widened = reinterpret_cast<uint8_t*>(worker.scratch.data());
  for (int64_t p = 0; p < run.count; ++p) {
    const uint8_t* base = weight.panel(run.panel + p);
    for (int64_t first = 0; first < weight.blocks(); first += kExactBlocks) {
      const int64_t count = std::min(kExactBlocks, weight.blocks() - first);
      const Dequantise widen = {.format = weight.format(),
                                .group_shift = weight.group_shift(),
                                .table = weight.table(),
                                .scales = base,
                                .codes = base + weight.codes_at(),
                                .first = first,
                                .count = count,
                                .to = floats(worker.scratch)};
      kernels_.dequantise(&widen);
      for (int64_t row = 0; row < a.rows; row += a.group[kFloat]) {
        const int64_t rows = std::min(a.group[kFloat], a.rows - row);
        const FloatTile tile = {.panels = {.scales = nullptr, .codes = widened, .stride = 0, .count = 1},
                                .inputs = count * kBlock,
                                .rows = static_cast<int>(rows),
                                .a = a.floats + row * a.cols + first * kBlock * rows,
                                .ahead = nothing_ahead(widened),
                                .acc = sums + (p * a.sum_rows + row) * kPanel,
                                .acc_stride = 0};
        kernels_.float_tile[linear::kF32](&tile);
      }
    }
  }
}

void LinearLayers::multiply_gemm(const PanelRun& run, const PanelRun& next, const Activations& a, Worker& worker,
                                 float* sums, const GroupsDone& done) const {
  const PackedWeight& weight = *run.weight;
  FetchAhead ahead = {nullptr, 0, 0, 0};
  if (next.weight != nullptr) {
    ahead = {codes_of(*next.weight, next.panel, 0), next.weight->panel_bytes(),
             std::min(kGemmAheadBytes, next.weight->panel_bytes() - next.weight->codes_at()),
             static_cast<int>(next.count)};
  }
  if (kind_of(weight) == kBf16) {
    const Bf16Gemm gemm = {.first_panel = weight.panel(run.panel),
                           .panel_bytes = weight.panel_bytes(),
                           .panels = static_cast<int>(run.count),
                           .pairs = (a.cols + kBlock - 1) / kBlock * kBlock / 2,
                           .groups = (a.bf16_rows + kTileRows - 1) / kTileRows,
                           .a = a.bf16,
                           .next = ahead,
                           .done = done,
                           .acc = sums,
                           .acc_stride = a.sum_rows * kPanel};
    return kernels_.bf16_gemm(&gemm);
  }
  const HalfSums sums_of = half_sums(weight.format(), a.quant);
  const QuantGemm gemm = {.first_panel = weight.panel(run.panel),
                          .panel_bytes = weight.panel_bytes(),
                          .codes_at = weight.codes_at(),
                          .panels = static_cast<int>(run.count),
                          .blocks = weight.blocks(),
                          .rows = a.rows,
                          .group_rows = a.group[kQuant],
                          .group_shift = weight.group_shift(),
                          .table = weight.table(),
                          .a = a.quant.a,
                          .d = a.quant.d,
                          .s = sums_of.s[0],
                          .s2 = sums_of.s[1],
                          .offset = sums_of.offset[0],
                          .offset2 = sums_of.offset[1],
                          .next = ahead,
                          .done = done,
                          .acc = sums,
                          .acc_stride = a.sum_rows * kPanel,
                          .scratch = reinterpret_cast<uint8_t*>(worker.scratch.data())};
  kernels_.quant_gemm[weight.format()](&gemm);
}

void LinearLayers::multiply(const PanelRun& run, const PanelRun& next, const Activations& a, Worker& worker,
                            float* sums, const GroupsDone& done) const {
  const Kind kind = kind_of(*run.weight);
  const int64_t stride = a.sum_rows * kPanel;
  const bool two_terms = kind == kBf16 && a.bf16_rows > a.rows, gemm = a.gemm[kind];
  if (gemm) {
    multiply_gemm(run, next, a, worker, sums, two_terms ? GroupsDone{} : done);
  } else {
    std::fill(sums, sums + run.count * stride, 0.0f);
    if (kind == kQuant) multiply_quant(run, next, a, sums);
    if (kind == kBf16) multiply_bf16(run, next, a, sums);
    if (kind == kFloat) {
      is_quantised(run.weight->format()) ? multiply_exact(run, a, worker, sums) : multiply_float(run, next, a, sums);
    }
  }
  for (int64_t i = 0; two_terms && i < run.count; ++i) {
    float* first = sums + i * stride;
    const float* second = first + a.rows * kPanel;
    for (int64_t k = 0; k < a.rows * kPanel; ++k) first[k] += second[k];
  }
  if (done.call != nullptr && (two_terms || !gemm)) done.call(done.context, 0, (a.rows + kTileRows - 1) / kTileRows);
}

void LinearLayers::multiply_run(const LinearOutput& output, const PanelRun& run, const PanelRun& next, int64_t first,
                                const Activations& a, int w) {
  Worker& worker = workers_[static_cast<std::size_t>(w)];
  float* sums = floats(worker.sums);
  const auto store = [&](int64_t row, int64_t rows) {
    const int64_t column = run.panel * kPanel;
    const StoreTile tile = {.sums = sums + row * kPanel,
                            .sums_stride = a.sum_rows * kPanel,
                            .rows = std::min(rows, a.rows - row),
                            .outputs = std::min(run.count * kPanel, run.weight->rows() - column),
                            .bias = output.bias == nullptr ? nullptr : output.bias + column,
                            .accumulate = output.accumulate,
                            .y = output.y.row(first + row) + column,
                            .stride = output.y.stride};
    kernels_.store(&tile);
  };
  multiply(run, next, a, worker, sums, groups_done(store));
}

void LinearLayers::multiply_gated_run(const GatedLinearCall& call, const PanelRun& run, const PanelRun& next,
                                      int64_t first, const Activations& a, int w) {
  Worker& worker = workers_[static_cast<std::size_t>(w)];
  const PanelRun same_of_up = {&packed(*call.up), run.panel, run.count};
  const int64_t stride = a.sum_rows * kPanel;
  float* gate_sums = floats(worker.sums);
  float* up_sums = gate_sums + kGemmPanels * stride;
  const auto store = [&](int64_t row, int64_t rows) {
    const int64_t column = run.panel * kPanel;
    const GatedStoreTile tile = {.gate = gate_sums + row * kPanel,
                                 .up = up_sums + row * kPanel,
                                 .sums_stride = stride,
                                 .rows = std::min(rows, a.rows - row),
                                 .outputs = std::min(run.count * kPanel, run.weight->rows() - column),
                                 .gate_bias = call.gate_bias == nullptr ? nullptr : call.gate_bias + column,
                                 .up_bias = call.up_bias == nullptr ? nullptr : call.up_bias + column,
                                 .activation = static_cast<int>(call.activation),
                                 .swiglu_alpha = call.swiglu.alpha,
                                 .swiglu_limit = call.swiglu.limit,
                                 .y = call.y.row(first + row) + column,
                                 .stride = call.y.stride};
    kernels_.store_gated(&tile);
  };
  multiply(run, same_of_up, a, worker, gate_sums, {});
  multiply(same_of_up, next, a, worker, up_sums, groups_done(store));
}

void LinearLayers::multiply_share(const LinearOutput& output, Range panels, int64_t first, const Activations& a,
                                  int w) {
  const PackedWeight& weight = packed(*output.weight);
  const int64_t count = runs(weight, panels, a);
  for (int64_t i = 0; i < count; ++i) {
    const PanelRun next = i + 1 < count ? run_at(weight, panels, i + 1, a) : PanelRun{};
    multiply_run(output, run_at(weight, panels, i, a), next, first, a, w);
  }
}

void LinearLayers::multiply_gated_share(const GatedLinearCall& call, Range panels, int64_t first, const Activations& a,
                                        int w) {
  const PackedWeight& gate = packed(*call.gate);
  const int64_t count = runs(gate, panels, a);
  for (int64_t i = 0; i < count; ++i) {
    const PanelRun next = i + 1 < count ? run_at(gate, panels, i + 1, a) : PanelRun{};
    multiply_gated_run(call, run_at(gate, panels, i, a), next, first, a, w);
  }
}

}  // namespace weir::backend::cpu::linear
