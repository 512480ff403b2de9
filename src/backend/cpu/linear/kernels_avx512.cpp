#include <immintrin.h>

#include "backend/cpu/linear/kernels.h"

namespace weir::backend::cpu::linear {
namespace {

#define WEIR_VNNI 0
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define F16_TO_F32(bits) _cvtsh_ss(bits)
#include "backend/cpu/linear/rows.inc"

#include "backend/cpu/linear/tiles_zmm.inc"

}  // namespace

const Kernels kAvx512Kernels = {
    .quant_rows = 12,
    .float_rows = 12,
    .bf16_rows = 0,
    .bf16_wide = 0,
    .quant_tile = {nullptr, nullptr, nullptr, quant_tile<kQ4_0>, quant_tile<kQ4_1>, quant_tile<kQ5_0>,
                   quant_tile<kQ5_1>, quant_tile<kQ8_0>, quant_tile<kQ4_K>, quant_tile<kQ5_K>, quant_tile<kQ6_K>},
    .quant_gemm = {},
    .float_tile = float_tile,
    .bf16_tile = nullptr,
    .bf16_gemm = nullptr,
    .norm_row = norm_row,
    .quantise_row = quantise_row,
    .widen_f16 = widen_f16,
    .widen_bf16 = widen_bf16,
    .round_bf16 = round_bf16,
    .round_bf16_wide = round_bf16_wide,
    .dequantise = dequantise,
    .store = store,
    .store_gated = store_gated,
};

}  // namespace weir::backend::cpu::linear
