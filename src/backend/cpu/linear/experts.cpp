// Mixtures of experts: pairs of token and expert sorted by expert, then every expert's three projections over its own
// rows, as linear.cpp does it for one matrix. A wave is as many experts as give their buffers a bounded size; all of
// its experts share each fork.
#include <algorithm>

#include "backend/cpu/linear/linear.h"
#include "base/check.h"

namespace weir::backend::cpu::linear {
namespace {

using std::int64_t;

// Pairs of a wave, unless one expert alone has more. Enough for a decoding batch of any size to be one wave; at 2048 +
// 1536 columns their F32 buffers take 15 MB.
constexpr int64_t kWavePairs = 1024;

void check(const ExpertsCall& call) {
  const auto experts = call.gate.weights.size();
  CHECK(experts > 0 && call.up.weights.size() == experts && call.down.weights.size() == experts, "{} {} {} experts",
        experts, call.up.weights.size(), call.down.weights.size());
  for (std::size_t e = 0; e < experts; ++e) {
    const LinearWeight &gate = *call.gate.weights[e], &up = *call.up.weights[e], &down = *call.down.weights[e];
    CHECK(gate.cols() == call.x.cols && up.cols() == call.x.cols && down.cols() == gate.rows() &&
              up.rows() == gate.rows() && down.rows() == call.y.cols,
          "expert {}: gate {} x {}, up {} x {}, down {} x {}", e, gate.rows(), gate.cols(), up.rows(), up.cols(),
          down.rows(), down.cols());
    CHECK(gate.rows() == call.gate.weights[0]->rows(), "expert {} has {} inner columns", e, gate.rows());
  }
  CHECK(call.y.rows == call.x.rows && call.experts.rows == call.x.rows && call.weights.rows == call.x.rows &&
            call.weights.cols == call.experts.cols,
        "{} tokens, {} outputs, {} x {} experts, {} x {} weights", call.x.rows, call.y.rows, call.experts.rows,
        call.experts.cols, call.weights.rows, call.weights.cols);
}

// The span of columns that worker w adds up, on borders of 16.
Range column_share(int64_t columns, int w, int workers) {
  const Range lines = share((columns + 15) / 16, w, workers);
  return {lines.begin * 16, std::min(lines.end * 16, columns)};
}

}  // namespace

// Fills token_of and weight_of, and cuts each expert's rows into segments of at most `most`.
void LinearLayers::sort_by_expert(const ExpertsCall& call, int64_t most) {
  const auto experts = static_cast<int64_t>(call.gate.weights.size());
  ExpertScratch& s = experts_;
  s.ends.assign(static_cast<std::size_t>(experts) + 1, 0);
  for (int64_t t = 0; t < call.experts.rows; ++t) {
    for (int64_t j = 0; j < call.experts.cols; ++j) {
      const std::int32_t e = call.experts.row(t)[j];
      CHECK(e >= -1 && e < experts, "expert {} of {}", e, experts);
      if (e >= 0) ++s.ends[static_cast<std::size_t>(e) + 1];
    }
  }
  for (std::size_t e = 1; e < s.ends.size(); ++e) s.ends[e] += s.ends[e - 1];
  const auto pairs = static_cast<std::size_t>(s.ends.back());
  s.token_of.resize(std::max(s.token_of.size(), pairs));
  s.weight_of.resize(std::max(s.weight_of.size(), pairs));
  s.segments.clear();
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t end = s.ends[static_cast<std::size_t>(e) + 1];
    for (int64_t first = s.ends[static_cast<std::size_t>(e)]; first < end; first += most)
      s.segments.push_back({.expert = e, .first = first, .rows = std::min(most, end - first), .a = {}});
  }
  for (int64_t t = 0; t < call.experts.rows; ++t) {
    for (int64_t j = 0; j < call.experts.cols; ++j) {
      const std::int32_t e = call.experts.row(t)[j];
      if (e < 0) continue;
      const auto at = static_cast<std::size_t>(s.ends[static_cast<std::size_t>(e)]++);
      s.token_of[at] = static_cast<std::int32_t>(t);
      s.weight_of[at] = call.weights.row(t)[j];
    }
  }
}

// Prepares the rows of a wave for its experts' weights. Segment s reads the input's rows from s.first - base on.
void LinearLayers::prepare_segments(const Input& input, int64_t base, const Needs& needs, std::span<Segment> wave) {
  const int64_t cols = input.x.cols;
  std::size_t total = 0;
  for (const Segment& s : wave) {
    std::size_t bytes = 0;
    plan(needs, s.rows, cols, nullptr, &bytes);
    total += bytes;
  }
  grow(&activations_, total);
  std::size_t at = 0;
  for (Segment& s : wave) {
    std::size_t bytes = 0;
    s.a = plan(needs, s.rows, cols, activations_.data() + at, &bytes);
    at += bytes;
  }
  const int64_t first = wave.front().first, pairs = wave.back().first + wave.back().rows - first;
  pool_.run([&](int w, int workers) {
    const Range mine = share(pairs, w, workers);
    for (const Segment& s : wave) {
      const int64_t from = s.first - first;
      const int64_t end = std::min(mine.end - from, s.rows);
      for (int64_t row = std::max<int64_t>(mine.begin - from, 0); row < end; ++row)
        prepare_row(input, s.first - base, row, s.a, workers_[static_cast<std::size_t>(w)]);
    }
  });
}

void LinearLayers::run_wave(const ExpertsCall& call, const Needs& outer, const Needs& inner_needs,
                            std::span<Segment> wave) {
  const ExpertScratch& scratch = experts_;
  const int64_t base = wave.front().first, pairs = wave.back().first + wave.back().rows - base;
  const int64_t inner_cols = call.gate.weights[0]->rows(), cols = call.y.cols;
  const Matrix<float> inner(floats(scratch.inner), pairs, inner_cols), out(floats(scratch.out), pairs, cols);
  // Worker w starts one place further on with every expert: experts with few panels keep different workers busy.
  const auto each_expert = [&](int64_t rows, auto&& multiply) {
    const int64_t panels = (rows + kPanel - 1) / kPanel;
    for (int w = 0; w < pool_.threads(); ++w) shares_.open(w, static_cast<std::int32_t>(wave.size()));
    pool_.run([&](int w, int workers) {
      while (const std::optional<WorkShares::Item> item = shares_.take(w)) {
        const int turn = (item->owner + item->index) % workers;
        multiply(wave[static_cast<std::size_t>(item->index)], share(panels, turn, workers), w);
      }
    });
  };
  const auto bias_of = [](const ExpertWeights& weights, const Segment& s, int64_t rows) {
    return weights.bias == nullptr ? nullptr : weights.bias + s.expert * rows;
  };

  prepare_segments({call.x, call.norm_weight, call.norm_eps, scratch.token_of.data()}, 0, outer, wave);
  each_expert(inner_cols, [&](const Segment& s, Range panels, int w) {
    const auto e = static_cast<std::size_t>(s.expert);
    multiply_gated_share({.gate = call.gate.weights[e],
                          .up = call.up.weights[e],
                          .gate_bias = bias_of(call.gate, s, inner_cols),
                          .up_bias = bias_of(call.up, s, inner_cols),
                          .activation = call.activation,
                          .y = inner,
                          .swiglu = call.swiglu},
                         panels, s.first - base, s.a, w);
  });
  prepare_segments({inner, nullptr, 0.0f}, base, inner_needs, wave);
  each_expert(cols, [&](const Segment& s, Range panels, int w) {
    multiply_share({.weight = call.down.weights[static_cast<std::size_t>(s.expert)],
                    .bias = bias_of(call.down, s, cols),
                    .y = out,
                    .accumulate = false},
                   panels, s.first - base, s.a, w);
  });
  pool_.run([&](int w, int workers) {
    const Range mine = column_share(cols, w, workers);
    for (int64_t i = 0; i < pairs; ++i) {
      const auto pair = static_cast<std::size_t>(base + i);
      float* y = call.y.row(scratch.token_of[pair]);
      const float* from = out.row(i);
      const float weight = scratch.weight_of[pair];
      for (int64_t c = mine.begin; c < mine.end; ++c) y[c] += weight * from[c];
    }
  });
}

void LinearLayers::experts(const ExpertsCall& call) {
  check(call);
  const int64_t inner_cols = call.gate.weights[0]->rows(), cols = call.x.cols;
  Needs outer, inner;
  for (std::size_t e = 0; e < call.gate.weights.size(); ++e) {
    add_needs(packed(*call.gate.weights[e]), &outer);
    add_needs(packed(*call.up.weights[e]), &outer);
    add_needs(packed(*call.down.weights[e]), &inner);
  }
  if (!call.accumulate) {
    pool_.run([&](int w, int workers) {
      const Range mine = share(call.y.rows, w, workers);
      for (int64_t t = mine.begin; t < mine.end; ++t) std::fill_n(call.y.row(t), call.y.cols, 0.0f);
    });
  }
  sort_by_expert(call, std::min(rows_at_once(call.x.rows, cols, outer), rows_at_once(call.x.rows, inner_cols, inner)));
  const std::span<Segment> all = experts_.segments;
  reserve_row(std::max(cols, inner_cols));
  int64_t most = 0;
  for (const Segment& s : all) most = std::max(most, s.rows);
  reserve_sums(most);
  for (std::size_t first = 0, end; first < all.size(); first = end) {
    int64_t pairs = all[first].rows;
    for (end = first + 1; end < all.size() && pairs + all[end].rows <= kWavePairs; ++end) pairs += all[end].rows;
    grow(&experts_.inner, static_cast<std::size_t>(pairs * inner_cols) * sizeof(float));
    grow(&experts_.out, static_cast<std::size_t>(pairs * call.y.cols) * sizeof(float));
    run_wave(call, outer, inner, all.subspan(first, end - first));
  }
}

}  // namespace weir::backend::cpu::linear
