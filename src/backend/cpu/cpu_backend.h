// The CPU backend: packed weights, kernels chosen by what the CPU can do (never by who made it), one thread pool.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "backend/backend.h"
#include "base/result.h"

namespace weir::backend::cpu {

// Kernel levels, the better ones later. A level names its own features (kAvx512* does not need AVX-VNNI, which servers
// of its age lack):
//   kAvx2 AVX2, FMA, F16C · kAvx2Vnni + AVX-VNNI · kAvx512 F, BW, DQ, VL · kAvx512Vnni + VNNI, BF16 · kAmx + AMX tiles,
//   INT8, BF16
enum class Isa { kScalar, kAvx2, kAvx2Vnni, kAvx512, kAvx512Vnni, kAmx };

inline constexpr std::string_view kIsaNames = "scalar, avx2, avx2-vnni, avx512, avx512-vnni or amx";

std::string_view name(Isa isa);                       // one of kIsaNames
std::optional<Isa> parse_isa(std::string_view text);  // a name, its hyphen left out or not
bool supported(Isa isa);                              // by this CPU and this OS
Isa best_isa();                                       // the last level that is supported
// The level to run at: `asked`, else what WEIR_ISA says, else the best. Errors: one that is unknown or not supported.
Result<Isa> choose_isa(std::optional<Isa> asked);

// How linear layers multiply. kAuto: int8 activations (one scale per 32) for quantised weights, BF16 for BF16 where the
// ISA has the instruction, else F32. kExact: F32 activations for everything (weights widened exactly).
enum class Compute { kAuto, kExact };

struct CpuOptions {
  int threads = 0;         // 0 = physical cores this process may use (affinity and cgroup quota)
  std::optional<Isa> isa;  // a lower level than best_isa(), for tests; default from WEIR_ISA, else best_isa()
  Compute compute = Compute::kAuto;
};

// What linear layers keep between calls for products of `rows` rows with weights of up to `cols` inputs, experts not
// counted: sums and, in 8 bits, prepared activations.
std::size_t linear_scratch_bytes(int threads, std::int64_t rows, std::int64_t cols);

// Errors: an ISA the CPU lacks, a thread count outside [1, 1024].
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options);

}  // namespace weir::backend::cpu
