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

#include "backend/cpu/linear/gemm_amx.inc"

#include "backend/cpu/linear/flush_subnormals.inc"

#include "backend/cpu/linear/gemm_bf16_amx.inc"

#include "backend/cpu/linear/table.inc"

}  // namespace

const Kernels kAmxKernels = {
    .quant_rows = 12,
    .float_rows = 12,
    .bf16_rows = 8,
    .bf16_wide = 1,
    .quant_tile = WEIR_QUANT_TILES,
    .gemm_rows = kGemmRows,
    .gemm_tiles = 0,
    .quant_gemm = WEIR_EACH_QUANT(quant_gemm),
    .float_tile = WEIR_FLOAT_TILES,
    .bf16_tile = bf16_tile,
    .bf16_gemm = bf16_gemm,
    WEIR_ROW_KERNELS,
};

}  // namespace weir::backend::cpu::linear
