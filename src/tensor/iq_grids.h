// The grids of GGUF's IQ types: an entry's values as indices, the first in the lowest bits. Two bits and 8 values an
// entry (IQ1: -1, 0, 1; IQ2: 8, 25, 43), or three bits and 4 values (IQ3_XXS: 4, 12, 20, 28, 36, 44, 52, 62; IQ3_S: the
// odd numbers up to 15). Numbers of the file format, written by tools/gen_quant_tables.py.
#pragma once

#include <cstdint>

namespace weir::tensor {

extern const std::uint16_t kIq2XxsGrid[256], kIq2XsGrid[512], kIq2SGrid[1024], kIq3XxsGrid[256], kIq3SGrid[512],
    kIq1Grid[2048];

}  // namespace weir::tensor
