#include "backend/cpu/ops/delta.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/ops/select.h"
#include "base/check.h"

namespace weir::backend::cpu {
namespace {

constexpr float kNormEps = 1e-6f;  // of q's and k's length, as the reference has it

float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

// ln(1 + e^x); beyond 20 the same as x in F32, as the reference has it too.
float softplus(float x) {
  return x > 20.0f ? x : std::log1p(std::exp(x));
}

// Scales x to length 1, times `scale`.
void normalise(float* x, int n, float scale) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += x[i] * x[i];
  const float factor = scale / std::sqrt(sum + kNormEps);
  for (int i = 0; i < n; ++i) x[i] *= factor;
}

class Delta {
 public:
  Delta(ThreadPool& pool, Isa isa, const DeltaCall& call, DeltaScratch& scratch)
      : pool_(pool), kernels_(op_kernels(isa)), call_(call), scratch_(scratch) {
    keys_ = std::int64_t{call.key_heads} * call.key_dim;
    channels_ = 2 * keys_ + std::int64_t{call.value_heads} * call.value_dim;
    matrix_floats_ = std::int64_t{call.key_dim} * call.value_dim;
    CHECK(call.key_heads > 0 && call.value_heads % call.key_heads == 0 && call.key_dim > 0 && call.value_dim > 0 &&
              call.tap_count > 0,
          "{} heads of {}, {} of {}, {} taps", call.key_heads, call.key_dim, call.value_heads, call.value_dim,
          call.tap_count);
    const std::int64_t rows = call.inputs.rows;
    CHECK(call.inputs.cols == channels_ && call.beta.rows == rows && call.alpha.rows == rows && call.out.rows == rows &&
              call.beta.cols == call.value_heads && call.alpha.cols == call.value_heads &&
              call.out.cols == std::int64_t{call.value_heads} * call.value_dim,
          "{} x {} inputs, {} beta, {} alpha, {} x {} outputs", rows, call.inputs.cols, call.beta.cols, call.alpha.cols,
          call.out.rows, call.out.cols);
    CHECK(call.query_starts.size() == call.seq_lens.size() + 1, "{} query starts for {} sequences",
          call.query_starts.size(), call.seq_lens.size());
    CHECK(call.state.tables.rows >= static_cast<std::int64_t>(call.seq_lens.size()), "{} state tables",
          call.state.tables.rows);
  }

  void run() {
    const std::int64_t rows = call_.inputs.rows, sequences = static_cast<std::int64_t>(call_.seq_lens.size());
    if (rows == 0) return;
    grow(&scratch_.convolved, static_cast<std::size_t>(rows * channels_) * sizeof(float));
    if (scratch_.matrices.size() < static_cast<std::size_t>(pool_.threads()))
      scratch_.matrices.resize(static_cast<std::size_t>(pool_.threads()));
    const std::int64_t most = std::max(matrix_floats_ + call_.value_dim, (call_.tap_count - 1) * channels_);
    for (Memory& memory : scratch_.matrices) grow(&memory, static_cast<std::size_t>(most) * sizeof(float));
    for_shares(rows, [&](std::int64_t begin, std::int64_t end, float* scratch) { convolve(begin, end, scratch); });
    const std::int64_t heads = call_.value_heads;
    for_shares(sequences * heads, [&](std::int64_t begin, std::int64_t end, float* scratch) {
      for (std::int64_t i = begin; i < end; ++i) run_head(i / heads, i % heads, scratch);
    });
    for_shares(sequences, [&](std::int64_t begin, std::int64_t end, float* scratch) {
      for (std::int64_t s = begin; s < end; ++s) keep_inputs(s, scratch);
    });
  }

 private:
  template <class F>
  void for_shares(std::int64_t count, F&& f) {
    pool_.run([&](int w, int workers) {
      const std::int64_t begin = count * w / workers, end = count * (w + 1) / workers;
      if (begin < end) f(begin, end, floats(scratch_.matrices[static_cast<std::size_t>(w)]));
    });
  }

  std::int64_t first_row(std::int64_t s) const { return call_.query_starts[static_cast<std::size_t>(s)]; }
  std::int64_t row_count(std::int64_t s) const { return first_row(s + 1) - first_row(s); }
  // Tokens of the sequence that earlier calls have seen.
  std::int64_t seen(std::int64_t s) const { return call_.seq_lens[static_cast<std::size_t>(s)] - row_count(s); }

  // Floats [first, first + count) of a sequence's state of this layer, from or to its blocks.
  template <bool kStore>
  void copy_state(std::int64_t s, std::int64_t first, std::int64_t count, float* memory) const {
    const StateView& state = call_.state;
    const std::int32_t* table = state.tables.row(s);
    std::int64_t at = state.offset + first * static_cast<std::int64_t>(sizeof(float));
    std::int64_t left = count * static_cast<std::int64_t>(sizeof(float));
    for (auto* bytes = reinterpret_cast<std::byte*>(memory); left > 0;) {
      const std::int64_t index = at / state.block_bytes, offset = at % state.block_bytes;
      CHECK(index < state.tables.cols && table[index] >= 0, "block {} of {} of a state", index, state.tables.cols);
      const std::int64_t size = std::min(left, state.block_bytes - offset);
      std::byte* place = state.base + table[index] * state.block_bytes + offset;
      if constexpr (kStore) {
        std::memcpy(place, bytes, static_cast<std::size_t>(size));
      } else {
        std::memcpy(bytes, place, static_cast<std::size_t>(size));
      }
      bytes += size;
      at += size;
      left -= size;
    }
  }

  std::int64_t history_at() const { return call_.value_heads * matrix_floats_; }

  // The last inputs before this call's, [taps - 1][channels].
  void load_history(std::int64_t s, float* history) const {
    const std::int64_t count = (call_.tap_count - 1) * channels_;
    if (seen(s) == 0) {
      std::fill_n(history, count, 0.0f);
    } else {
      copy_state<false>(s, history_at(), count, history);
    }
  }

  float* convolved(std::int64_t row) const { return floats(scratch_.convolved) + row * channels_; }

  // Rows [begin, end) of the batch: convolution, silu, and q and k to their lengths.
  void convolve(std::int64_t begin, std::int64_t end, float* history) const {
    for (std::int64_t s = 0; s + 1 < static_cast<std::int64_t>(call_.query_starts.size()); ++s) {
      const std::int64_t first = std::max(begin, first_row(s)), last = std::min(end, first_row(s + 1));
      if (first >= last) continue;
      load_history(s, history);
      for (std::int64_t row = first; row < last; ++row) convolve_row(row, row - first_row(s), history);
    }
  }

  // `index`: of the row among this call's of its sequence.
  void convolve_row(std::int64_t row, std::int64_t index, const float* history) const {
    float* y = convolved(row);
    const std::int64_t taps = call_.tap_count;
    std::fill_n(y, channels_, 0.0f);
    for (std::int64_t t = 0; t < taps; ++t) {
      const std::int64_t back = taps - 1 - t;
      const float* x = back <= index ? call_.inputs.row(row - back) : history + (taps - 1 - (back - index)) * channels_;
      for (std::int64_t c = 0; c < channels_; ++c) y[c] += call_.taps[c * taps + t] * x[c];
    }
    for (std::int64_t c = 0; c < channels_; ++c) y[c] *= sigmoid(y[c]);
    const float q_scale = 1.0f / std::sqrt(static_cast<float>(call_.key_dim));
    for (int head = 0; head < call_.key_heads; ++head) {
      normalise(y + std::int64_t{head} * call_.key_dim, call_.key_dim, q_scale);
      normalise(y + keys_ + std::int64_t{head} * call_.key_dim, call_.key_dim, 1.0f);
    }
  }

  void run_head(std::int64_t s, std::int64_t head, float* scratch) const {
    const std::int64_t key_head = call_.tiled ? head % call_.key_heads : head / (call_.value_heads / call_.key_heads);
    if (row_count(s) == 0) return;
    DeltaStep step;
    step.key_dim = call_.key_dim;
    step.value_dim = call_.value_dim;
    step.state = scratch;
    step.change = scratch + matrix_floats_;
    if (seen(s) == 0) {
      std::fill_n(step.state, matrix_floats_, 0.0f);
    } else {
      copy_state<false>(s, head * matrix_floats_, matrix_floats_, step.state);
    }
    for (std::int64_t row = first_row(s); row < first_row(s + 1); ++row) {
      const float* x = convolved(row);
      step.q = x + key_head * call_.key_dim;
      step.k = x + keys_ + key_head * call_.key_dim;
      step.v = x + 2 * keys_ + head * call_.value_dim;
      step.decay = std::exp(call_.decay[head] * softplus(call_.alpha.row(row)[head] + call_.dt[head]));
      step.beta = sigmoid(call_.beta.row(row)[head]);
      step.out = call_.out.row(row) + head * call_.value_dim;
      kernels_.delta_step(step);
    }
    copy_state<true>(s, head * matrix_floats_, matrix_floats_, step.state);
  }

  void keep_inputs(std::int64_t s, float* history) const {
    const std::int64_t kept = call_.tap_count - 1, rows = row_count(s);
    if (kept == 0 || rows == 0) return;
    load_history(s, history);
    const std::int64_t fresh = std::min(kept, rows);
    std::memmove(history, history + fresh * channels_,
                 static_cast<std::size_t>((kept - fresh) * channels_) * sizeof(float));
    for (std::int64_t i = 0; i < fresh; ++i) {
      std::memcpy(history + (kept - fresh + i) * channels_, call_.inputs.row(first_row(s + 1) - fresh + i),
                  static_cast<std::size_t>(channels_) * sizeof(float));
    }
    copy_state<true>(s, history_at(), kept * channels_, history);
  }

  ThreadPool& pool_;
  const OpKernels& kernels_;
  const DeltaCall& call_;
  DeltaScratch& scratch_;
  std::int64_t keys_ = 0, channels_ = 0, matrix_floats_ = 0;
};

}  // namespace

void delta_net(ThreadPool& pool, Isa isa, const DeltaCall& call, DeltaScratch& scratch) {
  Delta(pool, isa, call, scratch).run();
}

}  // namespace weir::backend::cpu
