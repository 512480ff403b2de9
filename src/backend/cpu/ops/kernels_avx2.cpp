#include "backend/cpu/ops/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace weir::backend::cpu {
namespace {

#include "backend/cpu/ops/simd_avx2.inc"
//
#include "backend/cpu/ops/math.inc"
//
#include "backend/cpu/ops/attention.inc"
#include "backend/cpu/ops/rows.inc"

}  // namespace

const OpKernels kOpKernelsAvx2 = {attention_tile, attention_merge, attention_finish, head_norm_rope,
                                  store_kv,       softcap,         exp2_row};

}  // namespace weir::backend::cpu

#endif
