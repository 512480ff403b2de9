// The reference: what every other ISA must reproduce bit for bit (quantised formats) or closely (floats).
#include "backend/cpu/linear/kernels.h"
#include "tensor/half.h"

namespace weir::backend::cpu::linear {
namespace {

#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define F16_TO_F32(bits) tensor::f32_from_f16(bits)
#include "backend/cpu/linear/rows.inc"

template <Format kFormat>
void quant_tile(const QuantTile* tile) {
  const QuantTile t = *tile;
  constexpr Form kRow = kForm[kFormat];
  constexpr bool kHasMin =
      kRow.scales == kHalfMin || kRow.scales == kSuperMin || kRow.scales == kSuper2 || kRow.scales == kGroup;
  uint8_t q[512];
  float scale[16], min[16];
  for (int64_t i = 0; i < t.panels.count * t.blocks; ++i) {
    const int64_t p = i / t.blocks, b = i % t.blocks;
    unpack_codes(kRow, t.table, t.panels.codes + p * t.panels.stride + b * 64 * kRow.code_bits, q);
    for (int half = 0; half < kRow.halves; ++half) {
      block_scales(kRow, t.group_shift, t.panels.scales + p * t.panels.stride, t.first + b, half, scale, min);
      const int32_t* offset = half ? t.offset2 : t.offset;
      const float* s = half ? t.s2 : t.s;
      for (int m = 0; m < t.rows; ++m) {
        const int64_t at = b * t.rows + m;
        const int8_t* a = t.a + at * kBlock;
        for (int r = 0; r < kPanel; ++r) {
          int32_t sum = kRow.zero != 0 ? offset[at] - kSumStart : 0;
          for (int k = half * 16; k < (half + 1) * kBlock / kRow.halves; ++k)
            sum += q[(k / 4) * 64 + r * 4 + k % 4] * a[k];
          float* acc = t.acc + p * t.acc_stride + m * kPanel + r;
          *acc = FMA(static_cast<float>(sum) * scale[r], t.d[at], *acc);
          if (kHasMin) *acc = FMA(min[r], s[at], *acc);
        }
      }
    }
  }
}

// Weight of output r and input k.
template <Format kFormat>
float weight_at(const uint8_t* w, int64_t k, int r) {
  if constexpr (kFormat == kF32) {
    float value;
    __builtin_memcpy(&value, w + (k * kPanel + r) * 4, 4);
    return value;
  } else if constexpr (kFormat == kF16) {
    return F16_TO_F32(load_u16(w + (k * kPanel + r) * 2));
  } else {
    return bits_to_float(static_cast<uint32_t>(load_u16(w + ((k / 2 * kPanel + r) * 2 + k % 2) * 2)) << 16);
  }
}

template <Format kFormat>
void float_tile(const FloatTile* tile) {
  const FloatTile t = *tile;
  for (int p = 0; p < t.panels.count; ++p) {
    for (int64_t k = 0; k < t.inputs; ++k) {
      for (int r = 0; r < kPanel; ++r) {
        const float w = weight_at<kFormat>(t.panels.codes + p * t.panels.stride, k, r);
        for (int m = 0; m < t.rows; ++m) {
          float* acc = t.acc + p * t.acc_stride + m * kPanel + r;
          *acc = FMA(w, t.a[k * t.rows + m], *acc);
        }
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
    .gemm_rows = 0,
    .gemm_tiles = 0,
    .quant_gemm = {},
    .float_tile = WEIR_FLOAT_TILES,
    .bf16_tile = nullptr,
    .bf16_gemm = nullptr,
    WEIR_ROW_KERNELS,
};

}  // namespace weir::backend::cpu::linear
