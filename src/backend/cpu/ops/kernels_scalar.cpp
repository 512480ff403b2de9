#include "backend/cpu/ops/kernels.h"
#include "tensor/half.h"

namespace weir::backend::cpu {
namespace {

#include "backend/cpu/ops/simd_scalar.inc"
//
#include "backend/cpu/ops/kernels.inc"

}  // namespace

const OpKernels kOpKernelsScalar = kKernels;

}  // namespace weir::backend::cpu
