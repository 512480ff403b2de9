// Time of attention for a model's shape, all layers: attention_bench [threads] [heads kv_heads dim layers]. Default:
// SmolLM2-135M. Prefill is one prompt, decode one token per sequence at the given context; "GB/s" is KV bytes read over
// time.

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cpu/ops/attention.h"
#include "base/cpu_info.h"

namespace weir::backend::cpu {
namespace {

struct Model {
  int heads = 9, kv_heads = 3, dim = 64, layers = 30;
};

constexpr int kBlockTokens = 16;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Milliseconds of the best of several passes over all layers; each layer has its own KV, as in a model.
double best_ms(ThreadPool& pool, Isa isa, const Model& model, DType dtype, int batch, int context, int queries) {
  const int blocks = (context + kBlockTokens - 1) / kBlockTokens;
  const std::int64_t width = std::int64_t{model.heads} * model.dim;
  const std::int64_t layer_bytes =
      2 * kBlockTokens * tensor::row_bytes(dtype, std::int64_t{model.kv_heads} * model.dim);
  const auto bytes = static_cast<std::size_t>(layer_bytes * model.layers * blocks * batch);
  const std::unique_ptr<std::byte[], decltype(&std::free)> arena(
      static_cast<std::byte*>(std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage)),
      std::free);
  madvise(arena.get(), bytes, MADV_HUGEPAGE);
  std::memset(arena.get(), 0x11, bytes);
  std::vector<float> q(static_cast<std::size_t>(width * batch * queries), 0.5f), out(q.size());
  std::vector<std::int32_t> table, starts = {0}, lengths;
  for (int s = 0; s < batch; ++s) {
    for (int b = 0; b < blocks; ++b) table.push_back(b * batch + s);  // blocks of different sequences interleave
    starts.push_back(starts.back() + queries);
    lengths.push_back(context);
  }
  AttentionScratch scratch;
  double best = 1e30;
  for (int pass = 0; pass < 7; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    for (int layer = 0; layer < model.layers; ++layer) {
      AttentionCall call;
      call.q = {q.data(), starts.back(), width};
      call.out = {out.data(), starts.back(), width};
      call.kv = {arena.get() + layer * layer_bytes,
                 layer_bytes * model.layers,
                 kBlockTokens,
                 model.kv_heads,
                 model.dim,
                 dtype};
      call.heads = model.heads;
      call.query_starts = starts;
      call.seq_lens = lengths;
      call.block_tables = {table.data(), batch, blocks};
      call.scale = 0.125f;
      attention(pool, isa, call, scratch);
    }
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void run(int threads, const Model& model) {
  ThreadPool pool(threads);
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (!supported(isa)) continue;
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
      fmt::print("{:<7} {:<5} prefill 512: {:7.1f} ms", name(isa), tensor::info(dtype).name,
                 best_ms(pool, isa, model, dtype, 1, 512, 512));
      fmt::print("   256 more at 4096: {:7.1f} ms", best_ms(pool, isa, model, dtype, 1, 4096, 256));
      for (const auto& [batch, context] :
           {std::pair{1, 128}, std::pair{1, 1024}, std::pair{1, 8192}, std::pair{8, 1024}}) {
        const double ms = best_ms(pool, isa, model, dtype, batch, context, 1);
        const double bytes = 2.0 * static_cast<double>(tensor::row_bytes(dtype, model.dim)) * model.kv_heads *
                             model.layers * context * batch;
        fmt::print("   decode {}x{}: {:6.2f} ms {:5.1f} GB/s", batch, context, ms, bytes / ms * 1e-6);
      }
      fmt::print("\n");
    }
  }
}

}  // namespace
}  // namespace weir::backend::cpu

int main(int argc, char** argv) {
  const auto argument = [&](int index, int otherwise) {
    return argc > index ? std::max(1, std::atoi(argv[index])) : otherwise;
  };
  weir::backend::cpu::Model model;
  model = {argument(2, model.heads), argument(3, model.kv_heads), argument(4, model.dim), argument(5, model.layers)};
  weir::backend::cpu::run(argument(1, weir::usable_cores()), model);
}
