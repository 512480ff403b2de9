#include "backend/cpu/ops/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace weir::backend::cpu {
namespace {

#include "backend/cpu/ops/simd_avx2.inc"
//
#include "backend/cpu/ops/kernels.inc"

}  // namespace

const OpKernels kOpKernelsAvx2 = kKernels;

}  // namespace weir::backend::cpu

#endif
