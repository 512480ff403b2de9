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
#define INT8_V(c, a, b) _mm512_add_epi32(c, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), a))
#define XOR_LOAD(acc, from) _mm512_xor_si512(acc, _mm512_load_si512(from))
#define FOLD(acc) static_cast<uint64_t>(_mm512_reduce_add_epi64(acc))
#include "backend/cpu/peaks/loops.inc"

}  // namespace

const PeakLoops kAvx512Peaks = {peak_f32, peak_int8, nullptr, peak_read};

}  // namespace weir::backend::cpu
