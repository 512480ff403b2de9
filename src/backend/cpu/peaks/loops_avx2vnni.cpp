#include <immintrin.h>

#include "backend/cpu/peaks/peaks.h"

namespace weir::backend::cpu {
namespace {

using Float = __m256;
using Int = __m256i;
constexpr int kLanes = 8;
#define REGISTER "x"
#define ZERO_F _mm256_setzero_ps()
#define ZERO_I _mm256_setzero_si256()
#define FMA_V _mm256_fmadd_ps
#define INT8_V _mm256_dpbusd_avx_epi32
#define XOR_LOAD(acc, from) _mm256_xor_si256(acc, _mm256_load_si256(reinterpret_cast<const __m256i*>(from)))
#define FOLD(acc) static_cast<uint64_t>(_mm256_extract_epi64(acc, 0) ^ _mm256_extract_epi64(acc, 3))
#include "backend/cpu/peaks/loops.inc"

}  // namespace

const PeakLoops kAvx2VnniPeaks = {peak_f32, peak_int8, nullptr, peak_read};

}  // namespace weir::backend::cpu
