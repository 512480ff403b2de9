#include "backend/cpu/peaks/peaks.h"

namespace weir::backend::cpu {
namespace {

// The baseline's own four lanes; int8 as four plain multiply-adds per lane.
typedef float Float __attribute__((vector_size(16)));
typedef int32_t Int __attribute__((vector_size(16)));
constexpr int kLanes = 4;
#define REGISTER "x"
#define ZERO_F \
  Float {}
#define ZERO_I \
  Int {}
#define FMA_V(a, b, c) ((a) * (b) + (c))
#define INT8_V(c, a, b) ((a) * (b) + (c))
#define XOR_LOAD(acc, from) ((acc) ^ *reinterpret_cast<const Int*>(from))
#define FOLD(acc) static_cast<uint64_t>((acc)[0] ^ (acc)[1] ^ (acc)[2] ^ (acc)[3])
#include "backend/cpu/peaks/loops.inc"

double int8_lanes(int64_t rounds) {
  return peak_int8(rounds) / 4;
}  // one multiply-add per lane, not four

}  // namespace

const PeakLoops kScalarPeaks = {peak_f32, int8_lanes, nullptr, peak_read};

}  // namespace weir::backend::cpu
