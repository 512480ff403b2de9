// Weight types without kernels of their own, each re-expressed without loss in a form that has them: codes of 2, 3, 4
// or 8 bits, linear or indices into a table of 16 values, with the scales of the form. A type is an entry here, and no
// kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/linear/kernels.h"
#include "backend/cpu/linear/pack_lane.h"
#include "tensor/dtype.h"

namespace weir::backend::cpu::linear {

// A block of up to 256 weights, taken apart. What it holds beside the codes depends on the form's scales.
struct ForeignBlock {
  std::uint8_t codes[256];
  float d[4];           // one, or (kBrain) one for each scale
  float min;            // kSuper2
  std::int8_t sub[16];  // kSub: per 16 or 32 inputs; kSuper2: scale | minimum << 4
  std::int16_t zero;    // kGroup
};

struct ForeignType {
  tensor::DType dtype;
  Format form;
  const std::int8_t* table;  // 16 values, or null
  void (*take_apart)(const std::uint8_t* block, ForeignBlock* to);
};

// nullptr for types with kernels of their own.
const ForeignType* foreign_type(tensor::DType dtype);

// Block `index` of a row (a multiple of 32 weights) into its lane. A form with groups has 2^group_shift blocks of 32 in
// each.
void pack_foreign(const ForeignType& type, int group_shift, const std::byte* row, std::int64_t index, const Lane& lane);

}  // namespace weir::backend::cpu::linear
