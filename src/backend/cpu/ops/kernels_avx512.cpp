#include "backend/cpu/ops/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

// GCC 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace weir::backend::cpu {
namespace {

#include "backend/cpu/ops/simd_avx512.inc"
//
#include "backend/cpu/ops/kernels.inc"

}  // namespace

const OpKernels kOpKernelsAvx512 = kKernels;

}  // namespace weir::backend::cpu

#endif
