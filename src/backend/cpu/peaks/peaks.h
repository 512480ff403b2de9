// Loops that do nothing but keep one unit of a core busy, per ISA. Each returns the operations it did (a multiply-add
// is two). Included by files compiled for one ISA: plain data only.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace weir::backend::cpu {

struct PeakLoops {
  double (*f32)(int64_t rounds);
  double (*int8)(int64_t rounds);
  double (*bf16)(int64_t rounds);  // null: no such instruction
  // Reads `bytes` (a multiple of 4096) from `from` in `streams` (1, 2, 4, 8 or 16) sequential streams, asking for lines
  // `ahead` bytes early.
  uint64_t (*read)(const uint8_t* from, int64_t bytes, int streams, int64_t ahead);
};

extern const PeakLoops kScalarPeaks, kAvx2Peaks, kAvx2VnniPeaks, kAvx512Peaks, kAvx512VnniPeaks, kAmxPeaks;

}  // namespace weir::backend::cpu
