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

struct TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t column_bytes[16] = {};
  uint8_t rows[16] = {};
};

void full_tiles() {
  TileConfig config;
  for (int t = 0; t < 8; ++t) config.rows[t] = 16, config.column_bytes[t] = 64;
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}

constexpr double kTileProducts = 2.0 * 16 * 16 * 16 * 4;  // 16 x 64 by 64 x 16 of int8; half of it in BF16

double amx_int8(int64_t rounds) {
  full_tiles();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  _tile_release();
  return kTileProducts * 4 * static_cast<double>(rounds);
}

double amx_bf16(int64_t rounds) {
  full_tiles();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return kTileProducts / 2 * 4 * static_cast<double>(rounds);
}

}  // namespace

const PeakLoops kAmxPeaks = {peak_f32, amx_int8, amx_bf16, peak_read};

}  // namespace weir::backend::cpu
