// How near every kernel comes to what the machine can do: each operation, weight type and number of rows, timed through
// the backend's seam with weights and KV that come from memory, as in a model.
//
// The bound of a figure is the slower of reading its bytes at the measured bandwidth and doing its operations at the
// measured peak of the arithmetic its type has: int8 for quantised weights, the faster of BF16 and F32 for BF16
// weights, F32 for everything else. Bytes are those that cannot stay in a cache: packed weights, keys and values, and
// the rows of operations that have no weights (read and written). The share is bound time over measured time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine_peaks.h"

namespace weir::backend::cpu {

struct KernelSpeedOptions {
  int threads = 0;
  std::optional<Isa> isa;
  // Names of measured_ops(); one that several begin with, as "attention", stands for them all. Empty: everything.
  std::vector<std::string> ops;
  // Of weights or, for attention, KV; operations without weights count as F32. Empty: everything.
  std::vector<DType> types;
  std::vector<std::int64_t> rows = {1, 2, 4, 8, 16, 32, 64, 256, 512};
};

struct KernelSpeed {
  std::string_view op;
  DType type = DType::kF32;
  std::int64_t rows = 0;             // tokens; of decoding attention, sequences
  double bytes = 0, operations = 0;  // of one call
  double seconds = 0;                // median of several short tries
  std::string_view bound;            // "read", "int8", "bf16" or "f32": what limits it
  double share = 0;                  // of the bound

  double gb_s() const { return bytes * 1e-9 / seconds; }
  double gops() const { return operations * 1e-9 / seconds; }
};

struct KernelSpeeds {
  MachinePeaks machine;
  std::vector<KernelSpeed> kernels;
};

std::span<const std::string_view> measured_ops();

// Measures the machine before and after the kernels and takes the better of both, for what else runs on it varies.
// `progress` is told of each operation and type before it begins. Takes about a minute and a half on a machine with
// vector units, and 1 GiB of memory, more for attention over many rows. Errors: an unknown operation, no memory, those
// of make_cpu_backend.
Result<KernelSpeeds> measure_kernels(const KernelSpeedOptions& options,
                                     const std::function<void(std::string_view op, DType type)>& progress);

}  // namespace weir::backend::cpu
