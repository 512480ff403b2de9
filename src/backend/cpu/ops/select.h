// Which table of kernels (kernels.h) serves an ISA, and which kind of KV a type is.
#pragma once

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/ops/kernels.h"

namespace weir::backend::cpu {

const OpKernels& op_kernels(Isa isa);

KvKind kv_kind(DType type);  // CHECKs that KV may be of this type

}  // namespace weir::backend::cpu
