#include <immintrin.h>

#include "backend/cpu/peaks/peaks.h"

namespace weir::backend::cpu {
namespace {

using Float = __m512;
using Int = __m512i;
constexpr int kLanes = 16;
#define REGISTER "v"
#define ZERO_F _mm512_setzero_ps()
#define ZERO_I _mm512_setzero_si512()
#define FMA_V _mm512_fmadd_ps
#define INT8_V _mm512_dpbusd_epi32
#define XOR_LOAD(acc, from) _mm512_xor_si512(acc, _mm512_load_si512(from))
#define FOLD(acc) static_cast<uint64_t>(_mm512_reduce_add_epi64(acc))
#include "backend/cpu/peaks/loops.inc"

double peak_bf16(int64_t rounds) {
  constexpr int kChains = 12;
  __m512 acc[kChains];
  __m512i a = ZERO_I;
  __asm__ volatile("" : "+v"(a));
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) acc[i] = ZERO_F;
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      acc[i] = _mm512_dpbf16_ps(acc[i], (__m512bh)a, (__m512bh)a);
      __asm__ volatile("" : "+v"(acc[i]));
    }
  }
  return 4.0 * kLanes * kChains * static_cast<double>(rounds);
}

}  // namespace

const PeakLoops kAvx512VnniPeaks = {peak_f32, peak_int8, peak_bf16, peak_read};

}  // namespace weir::backend::cpu
