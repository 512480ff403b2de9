// Linear layers: optional RMSNorm, activations to int8 / BF16 / F32 once per call, then every weight against all rows.
//
// Work is split over panels of 16 outputs, the same share for each worker at every call. A worker takes a run of panels
// at a time, some blocks of each in turn, and asks memory for the blocks that come next in all of them: memory is read
// in several streams, as fast as it can be. Who is done with its share helps others with theirs, a run at a time. Rows
// are taken in groups small enough for registers, so a panel is decoded once per group and read from memory once per
// call. No sum is ever split over workers, and a row's sums take the same steps in every tile shape: results do not
// depend on the number of rows or threads. Two forks per call: one prepares the activations, one multiplies. With very
// few rows each worker prepares its own copy instead.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/linear/kernels.h"
#include "backend/cpu/linear/packed_weight.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/work_shares.h"
#include "base/thread_pool.h"

namespace weir::backend::cpu::linear {

const Kernels& kernels_for(Isa isa);

class LinearLayers {
 public:
  LinearLayers(ThreadPool& pool, const Kernels& kernels, Compute compute);

  void linear(const LinearCall& call);
  void gated_linear(const GatedLinearCall& call);
  void experts(const ExpertsCall& call);
  void head_linear(const HeadLinearCall& call);
  void embed(const LinearWeight& table, std::span<const TokenId> ids, float scale, Matrix<float> out);
  void rms_norm(Matrix<const float> x, const float* weight, float eps, Matrix<float> out, bool accumulate);

  static std::size_t scratch_bytes(int threads, std::int64_t rows, std::int64_t cols);  // see cpu_backend.h

 private:
  // How activations enter the product with a weight.
  enum Kind { kQuant, kFloat, kBf16, kKinds };

  // Some rows of x, prepared for every kind that the call's weights need. Groups of `group` rows follow one another.
  struct Activations {
    std::int64_t rows = 0, cols = 0;
    // Rows of BF16. Beside narrow weights a row stands twice: rounded (at its own index), and what the rounding left
    // (at rows + index). The sum of the two products is as good as F32 activations.
    std::int64_t bf16_rows = 0;
    std::int64_t sum_rows = 0;  // rows of the buffer of sums
    std::int64_t group[kKinds] = {};
    bool gemm[kKinds] = {};    // quantised or BF16 rows go to the kernels for many rows
    bool padded[kKinds] = {};  // they are in groups of 16, the last padded
    QuantRow quant = {};
    float* floats = nullptr;
    std::uint16_t* bf16 = nullptr;
    float* bf16_wide = nullptr;  // BF16 values as F32
  };

  struct Needs {
    bool kind[kKinds] = {};
    bool offset8 = false, offset16 = false, offset32 = false, offset128 = false;
    bool offset128_half = false, s_half = false;
  };

  struct Worker {
    Memory row;      // one normed row
    Memory scratch;  // expanded weights
    Memory sums;     // [panels of a run][rows][16], twice for gated layers
  };

  // Neighbouring panels that are worked on together.
  struct PanelRun {
    const PackedWeight* weight = nullptr;  // null: nothing
    std::int64_t panel = 0;
    std::int64_t count = 0;
  };
  static constexpr std::int64_t kRunPanels = 8;    // kGemmPanels for matrix tiles
  static constexpr std::int64_t kExactBlocks = 8;  // blocks widened to f32 at a time: 16 KiB a panel

  struct Input {
    Matrix<const float> x;
    const float* norm_weight;
    float norm_eps;
    const std::int32_t* index = nullptr;  // row i is x's row index[i]
  };

  // Rows of one expert, in a call's pairs of token and expert sorted by expert.
  struct Segment {
    std::int64_t expert, first, rows;
    Activations a;
  };

  struct ExpertScratch {
    std::vector<std::int64_t> ends;      // [experts + 1]
    std::vector<std::int32_t> token_of;  // [pairs]
    std::vector<float> weight_of;        // [pairs]
    std::vector<Segment> segments;
    Memory inner, out;  // [pairs of a wave, columns]
  };

  Kind kind_of(const PackedWeight& weight) const;
  void place_bf16(const float* x, std::int64_t row, const Activations& to) const;
  void add_needs(const PackedWeight& weight, Needs* needs) const;
  std::int64_t rows_at_once(std::int64_t rows, std::int64_t cols, const Needs& needs) const;
  Activations plan(const Needs& needs, std::int64_t rows, std::int64_t cols, std::byte* base, std::size_t* bytes) const;
  void prepare_row(const Input& input, std::int64_t first, std::int64_t row, const Activations& to,
                   Worker& worker) const;
  // For blocks of rows of the input: runs multiply(worker, item, first row, activations) for every item of
  // items(worker, activations) of each worker.
  template <class Items, class F>
  void for_row_blocks(const Input& input, const Needs& needs, Items&& items, F&& multiply);
  void reserve_row(std::int64_t cols);
  static std::size_t sum_bytes(std::int64_t rows);
  void reserve_sums(std::int64_t rows);

  // multiply.cpp: panels of an output, for rows that stand in y from `first` on. `next`: what the worker does next, to
  // be read ahead.
  std::int64_t most_panels(Kind kind, const Activations& a) const;
  // A share is cut into runs of nearly the same size.
  std::int64_t runs(const PackedWeight& weight, Range panels, const Activations& a) const;
  PanelRun run_at(const PackedWeight& weight, Range panels, std::int64_t index, const Activations& a) const;
  void multiply_run(const LinearOutput& output, const PanelRun& run, const PanelRun& next, std::int64_t first,
                    const Activations& a, int w);
  void multiply_gated_run(const GatedLinearCall& call, const PanelRun& run, const PanelRun& next, std::int64_t first,
                          const Activations& a, int w);
  void multiply_share(const LinearOutput& output, Range panels, std::int64_t first, const Activations& a, int w);
  void multiply_gated_share(const GatedLinearCall& call, Range panels, std::int64_t first, const Activations& a, int w);
  // Sums of a run's panels against all rows of `a`: [count][a.sum_rows][16].
  // `done` hears when they are there, in one piece or by and by.
  void multiply(const PanelRun& run, const PanelRun& next, const Activations& a, Worker& worker, float* sums,
                const GroupsDone& done) const;
  void multiply_quant(const PanelRun& run, const PanelRun& next, const Activations& a, float* sums) const;
  void multiply_float(const PanelRun& run, const PanelRun& next, const Activations& a, float* sums) const;
  void multiply_bf16(const PanelRun& run, const PanelRun& next, const Activations& a, float* sums) const;
  void multiply_exact(const PanelRun& run, const Activations& a, Worker& worker, float* sums) const;
  void multiply_gemm(const PanelRun& run, const PanelRun& next, const Activations& a, Worker& worker, float* sums,
                     const GroupsDone& done) const;
  // Runs tile(panel of the run, first block, blocks, first row, rows, the panel's codes there, what to ask for) over
  // all blocks and rows of a run.
  template <class F>
  static void each_tile(const PanelRun& run, const PanelRun& next, std::int64_t blocks, std::int64_t rows,
                        std::int64_t group, F&& tile);

  // experts.cpp
  void sort_by_expert(const ExpertsCall& call, std::int64_t most);
  void prepare_segments(const Input& input, std::int64_t base, const Needs& needs, std::span<Segment> wave);
  void run_wave(const ExpertsCall& call, const Needs& outer, const Needs& inner, std::span<Segment> wave);

  ThreadPool& pool_;
  const Kernels& kernels_;
  const Compute compute_;
  std::vector<Worker> workers_;
  WorkShares shares_;
  Memory activations_;
  ExpertScratch experts_;
};

}  // namespace weir::backend::cpu::linear
