#include "backend/cpu/cpu_backend.h"

#include <string>
#include <utility>

#include "backend/cpu/linear/linear.h"
#include "backend/cpu/linear/packed_weight.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/ops/attention.h"
#include "backend/cpu/ops/delta.h"
#include "backend/cpu/ops/route.h"
#include "backend/cpu/ops/rows.h"
#include "backend/cpu/ops/select_positions.h"
#include "base/cpu_info.h"
#include "base/thread_pool.h"

namespace weir::backend::cpu {
namespace {

constexpr int kMaxThreads = 1024;

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(std::size_t bytes) : memory_(bytes) {
    data_ = memory_.data();
    size_ = bytes;
  }

 private:
  Memory memory_;
};

class CpuBackend : public Backend {
 public:
  CpuBackend(Isa isa, int threads, Compute compute)
      : isa_(isa), pool_(threads), layers_(pool_, linear::kernels_for(isa), compute) {}

  std::string describe() const override {
    return fmt::format("cpu, {}, {} thread{}", name(isa_), pool_.threads(), pool_.threads() == 1 ? "" : "s");
  }

  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return std::make_unique<HostBuffer>(bytes); }

  std::unique_ptr<LinearWeight> pack(DType dtype, std::int64_t rows, std::int64_t cols, std::span<const std::byte> data,
                                     const std::function<void(std::span<const std::byte>)>& consumed) override {
    return std::make_unique<linear::PackedWeight>(pool_, dtype, rows, cols, data, consumed);
  }

  void embed(const LinearWeight& table, std::span<const TokenId> ids, float scale, Matrix<float> out) override {
    layers_.embed(table, ids, scale, out);
  }
  void linear(const LinearCall& call) override { layers_.linear(call); }
  void gated_linear(const GatedLinearCall& call) override { layers_.gated_linear(call); }
  void head_linear(const HeadLinearCall& call) override { layers_.head_linear(call); }
  void copy_heads(const CopyHeadsCall& call) override { cpu::copy_heads(pool_, call); }
  void route(const RouteCall& call) override { cpu::route(pool_, call); }
  void experts(const ExpertsCall& call) override { layers_.experts(call); }
  void rms_norm(Matrix<const float> x, const float* weight, float eps, Matrix<float> out, bool accumulate) override {
    layers_.rms_norm(x, weight, eps, out, accumulate);
  }
  void layer_norm(Matrix<const float> x, const float* weight, const float* bias, float eps,
                  Matrix<float> out) override {
    cpu::layer_norm(pool_, x, weight, bias, eps, out);
  }
  void add(const AddCall& call) override { cpu::add(pool_, call); }
  void clamp(float limit, Matrix<float> x) override { cpu::clamp(pool_, limit, x); }
  void multiply_sigmoid(Matrix<const float> gate, Matrix<float> x) override { cpu::multiply_sigmoid(pool_, gate, x); }
  void multiply_silu(Matrix<const float> gate, Matrix<float> x) override { cpu::multiply_silu(pool_, gate, x); }
  void head_norm_rope(const HeadNormRopeCall& call) override { cpu::head_norm_rope(pool_, isa_, call); }
  void kv_write(const KvWriteCall& call) override { cpu::kv_write(pool_, isa_, call); }
  void attention(const AttentionCall& call) override { cpu::attention(pool_, isa_, call, attention_scratch_); }
  void select_positions(const SelectCall& call) override { cpu::select_positions(pool_, isa_, call, select_scratch_); }
  void delta_net(const DeltaCall& call) override { cpu::delta_net(pool_, isa_, call, delta_scratch_); }
  void softcap(Matrix<float> x, float cap) override { cpu::softcap(pool_, isa_, x, cap); }
  void gather_rows(Matrix<const float> x, std::span<const std::int32_t> rows, Matrix<float> out) override {
    cpu::gather_rows(pool_, x, rows, out);
  }

  void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& task) override {
    if (count <= 1) {
      if (count == 1) task(0);
      return;
    }
    pool_.run([&](int worker, int workers) {
      const linear::Range mine = linear::share(count, worker, workers);
      for (std::int64_t i = mine.begin; i < mine.end; ++i) task(i);
    });
  }
  int compute_threads() const override { return pool_.threads(); }
  void synchronize() override {}

 private:
  const Isa isa_;
  ThreadPool pool_;
  linear::LinearLayers layers_;
  AttentionScratch attention_scratch_;
  SelectScratch select_scratch_;
  DeltaScratch delta_scratch_;
};

}  // namespace

std::size_t linear_scratch_bytes(int threads, std::int64_t rows, std::int64_t cols) {
  return linear::LinearLayers::scratch_bytes(threads, rows, cols);
}

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options) {
  WEIR_TRY(const Isa isa, choose_isa(options.isa));
  const int threads = options.threads == 0 ? usable_cores() : options.threads;
  if (threads < 1 || threads > kMaxThreads) {
    return fail_at("threads", ErrorCode::kInvalidArgument, "{} threads asked for; use 1 to {}, or 0 for one per core",
                   threads, kMaxThreads);
  }
  return std::make_unique<CpuBackend>(isa, threads, options.compute);
}

}  // namespace weir::backend::cpu
