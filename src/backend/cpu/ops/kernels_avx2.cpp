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

const OpKernels kOpKernelsAvx2 = {.attention_tile = attention_tile,
                                  .attention_merge = attention_merge,
                                  .attention_finish = attention_finish,
                                  .index_tile = index_tile,
                                  .head_norm_rope = head_norm_rope,
                                  .delta_step = delta_step,
                                  .store_kv = store_kv,
                                  .softcap = softcap,
                                  .exp2 = exp2_row};

}  // namespace weir::backend::cpu

#endif
