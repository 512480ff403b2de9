// What this machine can do, measured: how fast memory can be read and how fast the arithmetic units run.
#pragma once

#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "base/result.h"

namespace weir::backend::cpu {

struct MachinePeaks {
  Isa isa = Isa::kScalar;
  int threads = 0;
  double read_gb_s = 0;  // 10^9 bytes per second, from a buffer far larger than the caches
  // 10^9 operations per second, a multiply-add counting as two; bf16 is 0 where no instruction multiplies it.
  double int8_gops = 0, bf16_gops = 0, f32_gops = 0;
  // The same for the vector units alone where the ISA has matrix tiles besides; equal to the above elsewhere.
  double vector_int8_gops = 0, vector_bf16_gops = 0;

  void take_better(const MachinePeaks& other);  // of the same machine, ISA and threads, another time
};

// Takes about four seconds and 1 GiB of memory. threads 0 = as many as the backend would use; isa as in CpuOptions.
// Each figure is the median of several tries, of reading in the access pattern that is fastest on this machine: what it
// sustains.
Result<MachinePeaks> measure_machine(int threads, std::optional<Isa> isa = {});

}  // namespace weir::backend::cpu
