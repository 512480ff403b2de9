// Rows of floats into blocks of a quantised type, each block with the scales that make the sum of its squared errors
// small: candidates around the largest magnitude, the best scale for the codes each gives (least squares), then scales
// as the type can store them, tried again. Deterministic; nothing depends on other rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace weir::quantise {

// Types that can be written.
bool can_encode(tensor::DType type);

// `row` (finite, a multiple of the type's block) as row_bytes(type, row.size()) bytes.
void encode_row(tensor::DType type, std::span<const float> row, std::byte* to);

}  // namespace weir::quantise
