#include "tensor/dtype.h"

#include <array>
#include <cctype>

#include "base/check.h"

namespace weir::tensor {
namespace {

constexpr std::array<DTypeInfo, 30> kInfo = {{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"I32", 1, 4},
    {"Q4_0", 32, sizeof(BlockQ4_0)},
    {"Q4_1", 32, sizeof(BlockQ4_1)},
    {"Q5_0", 32, sizeof(BlockQ5_0)},
    {"Q5_1", 32, sizeof(BlockQ5_1)},
    {"Q8_0", 32, sizeof(BlockQ8_0)},
    {"Q4_K", 256, sizeof(BlockQ4_K)},
    {"Q5_K", 256, sizeof(BlockQ5_K)},
    {"Q6_K", 256, sizeof(BlockQ6_K)},
    {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},
    {"IQ4_NL", 32, 18},
    {"IQ4_XS", 256, 136},
    {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},
    {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},
    {"IQ2_XXS", 256, 66},
    {"IQ2_XS", 256, 74},
    {"IQ2_S", 256, 82},
    {"IQ3_XXS", 256, 98},
    {"IQ3_S", 256, 110},
    {"IQ1_S", 256, 50},
    {"IQ1_M", 256, 56},
    {"INT4", 32, sizeof(BlockInt4)},
    {"INT8", 32, sizeof(BlockInt8)},
    {"F8_E4M3", 32, sizeof(BlockFloat8)},
}};

bool same_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(a[i])) != std::tolower(static_cast<unsigned char>(b[i]))) return false;
  }
  return true;
}

}  // namespace

const DTypeInfo& info(DType type) {
  return kInfo[static_cast<std::size_t>(type)];
}

std::int64_t row_bytes(DType type, std::int64_t elements) {
  const DTypeInfo& t = info(type);
  CHECK(elements % t.block_elements == 0, "{} elements in blocks of {}", elements, t.block_elements);
  return elements / t.block_elements * t.block_bytes;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kInfo.size(); ++i) {
    if (same_ignoring_case(kInfo[i].name, name)) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace weir::tensor
