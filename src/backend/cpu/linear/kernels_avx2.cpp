#include <immintrin.h>

#include "backend/cpu/linear/kernels.h"

namespace weir::backend::cpu::linear {
namespace {

#define WEIR_VNNI 0
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define F16_TO_F32(bits) _cvtsh_ss(bits)
#include "backend/cpu/linear/rows.inc"

#include "backend/cpu/linear/tiles_ymm.inc"

#include "backend/cpu/linear/table.inc"

}  // namespace

const Kernels kAvx2Kernels = {
    .quant_rows = 4,
    .float_rows = 6,
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
