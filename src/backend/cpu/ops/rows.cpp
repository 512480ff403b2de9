#include "backend/cpu/ops/rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "backend/cpu/ops/kv_vectors.h"
#include "backend/cpu/ops/select.h"
#include "base/check.h"

namespace weir::backend::cpu {
namespace {

// Below about this many elements a row-wise operation takes less time than waking the pool.
constexpr std::int64_t kSerialElements = 8192;

// f(begin, end) over [0, count) in one contiguous part per thread. `elements` is the size of the whole work.
template <class F>
void for_ranges(ThreadPool& pool, std::int64_t count, std::int64_t elements, F f) {
  if (elements <= kSerialElements || pool.threads() == 1) return f(0, count);
  pool.run([&](int worker, int workers) {
    const std::int64_t begin = count * worker / workers, end = count * (worker + 1) / workers;
    if (begin < end) f(begin, end);
  });
}

float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

template <class F>
void multiply_gate(ThreadPool& pool, Matrix<const float> gate, Matrix<float> x, F activation) {
  CHECK(gate.rows == x.rows && gate.cols == x.cols, "{} x {} gates for {} x {}", gate.rows, gate.cols, x.rows, x.cols);
  for_ranges(pool, x.rows, x.rows * x.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < x.cols; ++i) x.row(t)[i] *= activation(gate.row(t)[i]);
    }
  });
}

// The sum of n values in a fixed order that does not wait for each addition.
template <class F>
float strand_sum(std::int64_t n, F value) {
  constexpr int kStrands = 16;
  float strands[kStrands] = {};
  std::int64_t i = 0;
  for (; i + kStrands <= n; i += kStrands) {
    for (int s = 0; s < kStrands; ++s) strands[s] += value(i + s);
  }
  for (int s = 0; i + s < n; ++s) strands[s] += value(i + s);
  for (int half = kStrands / 2; half > 0; half /= 2) {
    for (int s = 0; s < half; ++s) strands[s] += strands[s + half];
  }
  return strands[0];
}

}  // namespace

const OpKernels& op_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return kOpKernelsAvx512;
  if (isa >= Isa::kAvx2) return kOpKernelsAvx2;
#endif
  return kOpKernelsScalar;
}

KvKind kv_kind(DType type) {
  switch (type) {
    case DType::kF32:
      return KvKind::kF32;
    case DType::kF16:
      return KvKind::kF16;
    case DType::kBF16:
      return KvKind::kBF16;
    default:
      CHECK(false, "KV of type {}", tensor::info(type).name);
  }
}

void layer_norm(ThreadPool& pool, Matrix<const float> x, const float* weight, const float* bias, float eps,
                Matrix<float> out) {
  CHECK(x.rows == out.rows && x.cols == out.cols, "{} x {} to {} x {}", x.rows, x.cols, out.rows, out.cols);
  for_ranges(pool, x.rows, x.rows * x.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const float* from = x.row(t);
      float* to = out.row(t);
      const auto n = static_cast<float>(x.cols);
      const float mean = strand_sum(x.cols, [&](std::int64_t i) { return from[i]; }) / n;
      const float variance =
          strand_sum(x.cols, [&](std::int64_t i) { return (from[i] - mean) * (from[i] - mean); }) / n;
      const float scale = 1.0f / std::sqrt(variance + eps);
      for (std::int64_t i = 0; i < x.cols; ++i)
        to[i] = (from[i] - mean) * scale * weight[i] + (bias == nullptr ? 0.0f : bias[i]);
    }
  });
}

void add(ThreadPool& pool, const AddCall& call) {
  const Matrix<const float> from = call.from;
  CHECK(from.rows == call.to.rows && from.cols == call.to.cols, "{} x {} to {} x {}", from.rows, from.cols,
        call.to.rows, call.to.cols);
  CHECK(call.gate.data == nullptr || (call.gate.rows == from.rows && call.gate.cols == 1), "{} x {} gates for {} rows",
        call.gate.rows, call.gate.cols, from.rows);
  for_ranges(pool, from.rows, from.rows * from.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const float scale = call.gate.data == nullptr ? call.scale : call.scale * sigmoid(call.gate.row(t)[0]);
      for (std::int64_t i = 0; i < from.cols; ++i) call.to.row(t)[i] += scale * from.row(t)[i];
    }
  });
}

void copy_heads(ThreadPool& pool, const CopyHeadsCall& call) {
  const std::int64_t last = call.heads - 1;
  CHECK(call.heads > 0 && call.from.rows == call.to.rows &&
            last * call.from_head + call.from_begin + call.count <= call.from.cols &&
            last * call.to_head + call.to_begin + call.count <= call.to.cols,
        "{} of {} heads, {} x {} to {} x {}", call.count, call.heads, call.from.rows, call.from.cols, call.to.rows,
        call.to.cols);
  for_ranges(pool, call.from.rows, call.from.rows * call.heads * call.count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t h = 0; h < call.heads; ++h) {
        std::memcpy(call.to.row(t) + h * call.to_head + call.to_begin,
                    call.from.row(t) + h * call.from_head + call.from_begin,
                    static_cast<std::size_t>(call.count) * sizeof(float));
      }
    }
  });
}

void clamp(ThreadPool& pool, float limit, Matrix<float> x) {
  for_ranges(pool, x.rows, x.rows * x.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < x.cols; ++i) {
        float& value = x.row(t)[i];
        value = value > limit ? limit : value < -limit ? -limit : value;
      }
    }
  });
}

void multiply_sigmoid(ThreadPool& pool, Matrix<const float> gate, Matrix<float> x) {
  multiply_gate(pool, gate, x, sigmoid);
}

void multiply_silu(ThreadPool& pool, Matrix<const float> gate, Matrix<float> x) {
  multiply_gate(pool, gate, x, [](float g) { return g * sigmoid(g); });
}

void head_norm_rope(ThreadPool& pool, Isa isa, const HeadNormRopeCall& call) {
  CHECK(call.head_dim > 0 && call.x.cols % call.head_dim == 0, "{} columns, head_dim {}", call.x.cols, call.head_dim);
  const RopeTable* rope = call.rope;
  if (rope != nullptr) {
    CHECK(static_cast<std::int64_t>(call.positions.size()) == call.x.rows, "{} positions for {} rows",
          call.positions.size(), call.x.rows);
    CHECK(rope->dims % 2 == 0 && call.rope_begin >= 0 && call.rope_begin + rope->dims <= call.head_dim,
          "{} rotated dims of {} from {} on", rope->dims, call.head_dim, call.rope_begin);
  }
  if (rope == nullptr && call.norm_weight == nullptr) return;
  const int norm_dims = call.norm_dims == 0 ? call.head_dim : call.norm_dims;
  CHECK(norm_dims > 0 && norm_dims <= call.head_dim, "{} of {} elements are normed", norm_dims, call.head_dim);
  const OpKernels& kernels = op_kernels(isa);
  const std::int64_t heads = call.x.cols / call.head_dim;
  for_ranges(pool, call.x.rows * heads, call.x.rows * call.x.cols, [&](std::int64_t begin, std::int64_t end) {
    HeadNormRope norm, head;
    norm.dim = norm_dims;
    norm.norm_weight = call.norm_weight;
    norm.norm_eps = call.norm_eps;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / heads;
      norm.x = call.x.row(row) + (i % heads) * call.head_dim;
      if (call.norm_weight != nullptr) kernels.head_norm_rope(norm);
      if (rope != nullptr) {
        head.x = norm.x + call.rope_begin;
        const std::int64_t position = call.positions[static_cast<std::size_t>(row)];
        CHECK(position >= 0 && position < rope->positions, "position {} of {}", position, rope->positions);
        head.cos = rope->cos + position * (rope->dims / 2);
        head.sin = rope->sin + position * (rope->dims / 2);
        head.rotated = rope->dims;
        head.adjacent = rope->adjacent;
        kernels.head_norm_rope(head);
      }
    }
  });
}

void kv_write(ThreadPool& pool, Isa isa, const KvWriteCall& call) {
  const KvLayerView& kv = call.kv;
  const std::int64_t width = std::int64_t{kv.heads} * kv.head_dim;
  const int value_dim = kv.values_in_keys ? 0 : kv.value_size();  // of what is stored for itself
  const std::int64_t value_width = std::int64_t{kv.heads} * value_dim;
  CHECK((value_dim == 0 || call.k.rows == call.v.rows) && static_cast<std::int64_t>(call.slots.size()) == call.k.rows,
        "{} keys, {} values, {} slots", call.k.rows, call.v.rows, call.slots.size());
  CHECK(call.k.cols == width && call.v.cols == value_width, "{} and {} columns for {} heads of {} and {}", call.k.cols,
        call.v.cols, kv.heads, kv.head_dim, value_dim);
  CHECK(kv.block_tokens > 0, "block_tokens {}", kv.block_tokens);
  const OpKernels& kernels = op_kernels(isa);
  const KvKind kind = kv_kind(kv.dtype);
  const std::int64_t key_bytes = tensor::row_bytes(kv.dtype, stored_key_dim(kv));
  const std::int64_t value_bytes = tensor::row_bytes(kv.dtype, stored_value_dim(kv));
  const auto store = [&](const float* x, int dim, std::byte* to) {
    const int whole = dim / kKvUnit * kKvUnit;
    kernels.store_kv(kind, x, whole, to);
    if (whole == dim) return;
    std::array<float, kKvUnit> last = {};
    std::copy(x + whole, x + dim, last.begin());
    kernels.store_kv(kind, last.data(), kKvUnit, to + tensor::row_bytes(kv.dtype, whole));
  };
  for_ranges(pool, call.k.rows, call.k.rows * (width + value_width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t slot = call.slots[static_cast<std::size_t>(row)];
      CHECK(slot >= 0, "slot {}", slot);
      std::byte* block = kv.base + slot / kv.block_tokens * kv.block_stride;
      const std::int64_t token = slot % kv.block_tokens;
      for (int head = 0; head < kv.heads; ++head) {
        store(call.k.row(row) + head * kv.head_dim, kv.head_dim, block + (head * kv.block_tokens + token) * key_bytes);
      }
      std::byte* values = block + kv.heads * kv.block_tokens * key_bytes;
      for (int head = 0; head < kv.heads && value_dim > 0; ++head) {
        store(call.v.row(row) + head * value_dim, value_dim, values + (head * kv.block_tokens + token) * value_bytes);
      }
    }
  });
}

void softcap(ThreadPool& pool, Isa isa, Matrix<float> x, float cap) {
  CHECK(cap > 0.0f, "cap {}", cap);
  constexpr std::int64_t kPart = 4096;
  const OpKernels& kernels = op_kernels(isa);
  const std::int64_t parts = (x.cols + kPart - 1) / kPart;
  for_ranges(pool, x.rows * parts, x.rows * x.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % parts * kPart;
      kernels.softcap(x.row(i / parts) + first, std::min(kPart, x.cols - first), cap);
    }
  });
}

void gather_rows(ThreadPool& pool, Matrix<const float> x, std::span<const std::int32_t> rows, Matrix<float> out) {
  const auto count = static_cast<std::int64_t>(rows.size());
  CHECK(out.rows == count && out.cols == x.cols, "out is {} x {}, the rows {} x {}", out.rows, out.cols, count, x.cols);
  for_ranges(pool, count, count * x.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int32_t row = rows[static_cast<std::size_t>(i)];
      CHECK(row >= 0 && row < x.rows, "row {} of {}", row, x.rows);
      std::memcpy(out.row(i), x.row(row), static_cast<std::size_t>(x.cols) * sizeof(float));
    }
  });
}

}  // namespace weir::backend::cpu
