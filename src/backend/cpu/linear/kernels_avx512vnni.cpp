#include <immintrin.h>

#include "backend/cpu/linear/kernels.h"

namespace weir::backend::cpu::linear {
namespace {

#define WEIR_VNNI 1
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define F16_TO_F32(bits) _cvtsh_ss(bits)
#include "backend/cpu/linear/rows_zmm.inc"

#include "backend/cpu/linear/rows.inc"

#include "backend/cpu/linear/tiles_zmm.inc"

#include "backend/cpu/linear/fetcher.inc"

#include "backend/cpu/linear/gemm_zmm.inc"

#include "backend/cpu/linear/tiles_bf16.inc"

#include "backend/cpu/linear/flush_subnormals.inc"

#include "backend/cpu/linear/tiles_bf16_fma.inc"

#include "backend/cpu/linear/table.inc"

constexpr Kernels table(int bf16_rows, int bf16_wide, void (*bf16)(const Bf16Tile*)) {
  return {
      .quant_rows = 12,
      .float_rows = 12,
      .bf16_rows = bf16_rows,
      .bf16_wide = bf16_wide,
      .quant_tile = WEIR_QUANT_TILES,
      .gemm_rows = kGemmRows,
      .gemm_tiles = 1,
      .quant_gemm = WEIR_EACH_QUANT(quant_gemm),
      .float_tile = WEIR_FLOAT_TILES,
      .bf16_tile = bf16,
      .bf16_gemm = nullptr,
      WEIR_ROW_KERNELS,
  };
}

}  // namespace

const Kernels kAvx512VnniKernels = table(12, 0, bf16_tile);
const Kernels kAvx512VnniFmaKernels = table(kFmaRows, 1, bf16_fma_tile);

int bf16_by_fma() {
  static Bf16Trial trial;
  return bf16_by_fma(&trial);
}

}  // namespace weir::backend::cpu::linear
