// The reference: what every other ISA must reproduce bit for bit (quantised formats) or closely (floats).
#include "backend/cpu/linear/kernels.h"
#include "tensor/half.h"

namespace weir::backend::cpu::linear {
namespace {

#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define F16_TO_F32(bits) tensor::f32_from_f16(bits)
#include "backend/cpu/linear/rows.inc"

void widen_f16(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = F16_TO_F32(from[i]);
}

template <Format kFormat>
void quant_tile(const QuantTile* tile) {
  const QuantTile t = *tile;
  constexpr int kHalves = kFormat == kQ6_K ? 2 : 1;
  for (int i = 0; i < t.rows * kPanel; ++i) t.out[i] = 0.0f;
  uint8_t q[512];
  float scale[16], min[16];
  for (int64_t b = 0; b < t.blocks; ++b) {
    unpack_codes(kFormat, t.codes + b * code_bytes(kFormat), q);
    for (int half = 0; half < kHalves; ++half) {
      block_scales(kFormat, t.scales, b, half, scale, min);
      const int32_t* offset = half ? t.offset2 : t.offset;
      for (int m = 0; m < t.rows; ++m) {
        const int64_t at = b * t.rows + m;
        const int8_t* a = t.a + at * kBlock;
        for (int r = 0; r < kPanel; ++r) {
          int32_t sum = zero_point(kFormat) ? offset[at] : 0;
          for (int k = half * 16; k < (half + 1) * kBlock / kHalves; ++k) sum += q[(k / 4) * 64 + r * 4 + k % 4] * a[k];
          float* out = t.out + m * kPanel + r;
          *out = FMA(static_cast<float>(sum), scale[r] * t.d[at], *out);
          if (kFormat == kQ4_1 || kFormat == kQ5_1 || kFormat == kQ4_K || kFormat == kQ5_K)
            *out = FMA(min[r], t.s[at], *out);
        }
      }
    }
  }
}

void float_tile(const FloatTile* tile) {
  const FloatTile t = *tile;
  for (int panel = 0; panel < 2 && t.w[panel] != nullptr; ++panel) {
    for (int64_t k = 0; k < t.inputs; ++k) {
      for (int m = 0; m < t.rows; ++m) {
        float* acc = t.acc[panel] + m * kPanel;
        for (int r = 0; r < kPanel; ++r) acc[r] = FMA(t.w[panel][k * kPanel + r], t.a[k * t.rows + m], acc[r]);
      }
    }
  }
}

#include "backend/cpu/linear/table.inc"

}  // namespace

const Kernels kScalarKernels = {
    .quant_rows = 12,
    .float_rows = 12,
    .bf16_rows = 0,
    .bf16_wide = 0,
    .quant_tile = WEIR_QUANT_TILES,
    .quant_gemm = {},
    .float_tile = float_tile,
    .bf16_tile = nullptr,
    .bf16_gemm = nullptr,
    WEIR_ROW_KERNELS,
};

}  // namespace weir::backend::cpu::linear
