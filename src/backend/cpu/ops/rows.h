// The small operations of the CPU backend, each working on rows by themselves; contracts in backend/backend.h. Calls
// too small to be worth waking the pool run in the caller. Nothing allocates.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "base/thread_pool.h"

namespace weir::backend::cpu {

void layer_norm(ThreadPool& pool, Matrix<const float> x, const float* weight, const float* bias, float eps,
                Matrix<float> out);
void add(ThreadPool& pool, const AddCall& call);
void copy_heads(ThreadPool& pool, const CopyHeadsCall& call);
void clamp(ThreadPool& pool, float limit, Matrix<float> x);
void multiply_sigmoid(ThreadPool& pool, Matrix<const float> gate, Matrix<float> x);
void multiply_silu(ThreadPool& pool, Matrix<const float> gate, Matrix<float> x);

void head_norm_rope(ThreadPool& pool, Isa isa, const HeadNormRopeCall& call);

// F16 stores saturate at +-65504 instead of overflowing to infinity. Zeros fill them up as kv_vectors.h says.
void kv_write(ThreadPool& pool, Isa isa, const KvWriteCall& call);

void softcap(ThreadPool& pool, Isa isa, Matrix<float> x, float cap);

void gather_rows(ThreadPool& pool, Matrix<const float> x, std::span<const std::int32_t> rows, Matrix<float> out);

}  // namespace weir::backend::cpu
