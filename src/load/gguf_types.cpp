#include "load/gguf_types.h"

#include <algorithm>
#include <array>

namespace weir::load {
namespace {

using tensor::DType;

struct Row {
  std::int32_t id;
  GgufType type;
};

constexpr std::array kTypes = {
    Row{0, {"F32", 1, 4, DType::kF32}},
    Row{1, {"F16", 1, 2, DType::kF16}},
    Row{2, {"Q4_0", 32, 18, DType::kQ4_0}},
    Row{3, {"Q4_1", 32, 20, DType::kQ4_1}},
    Row{6, {"Q5_0", 32, 22, DType::kQ5_0}},
    Row{7, {"Q5_1", 32, 24, DType::kQ5_1}},
    Row{8, {"Q8_0", 32, 34, DType::kQ8_0}},
    Row{9, {"Q8_1", 32, 36, std::nullopt}},
    Row{10, {"Q2_K", 256, 84, DType::kQ2_K}},
    Row{11, {"Q3_K", 256, 110, DType::kQ3_K}},
    Row{12, {"Q4_K", 256, 144, DType::kQ4_K}},
    Row{13, {"Q5_K", 256, 176, DType::kQ5_K}},
    Row{14, {"Q6_K", 256, 210, DType::kQ6_K}},
    Row{15, {"Q8_K", 256, 292, std::nullopt}},
    Row{16, {"IQ2_XXS", 256, 66, DType::kIQ2_XXS}},
    Row{17, {"IQ2_XS", 256, 74, DType::kIQ2_XS}},
    Row{18, {"IQ3_XXS", 256, 98, DType::kIQ3_XXS}},
    Row{19, {"IQ1_S", 256, 50, DType::kIQ1_S}},
    Row{20, {"IQ4_NL", 32, 18, DType::kIQ4_NL}},
    Row{21, {"IQ3_S", 256, 110, DType::kIQ3_S}},
    Row{22, {"IQ2_S", 256, 82, DType::kIQ2_S}},
    Row{23, {"IQ4_XS", 256, 136, DType::kIQ4_XS}},
    Row{24, {"I8", 1, 1, std::nullopt}},
    Row{25, {"I16", 1, 2, std::nullopt}},
    Row{26, {"I32", 1, 4, DType::kI32}},
    Row{27, {"I64", 1, 8, std::nullopt}},
    Row{28, {"F64", 1, 8, std::nullopt}},
    Row{29, {"IQ1_M", 256, 56, DType::kIQ1_M}},
    Row{30, {"BF16", 1, 2, DType::kBF16}},
    Row{34, {"TQ1_0", 256, 54, DType::kTQ1_0}},
    Row{35, {"TQ2_0", 256, 66, DType::kTQ2_0}},
    Row{39, {"MXFP4", 32, 17, DType::kMXFP4}},
    Row{40, {"NVFP4", 64, 36, DType::kNVFP4}},
    Row{41, {"Q1_0", 128, 18, std::nullopt}},
    Row{42, {"Q2_0", 64, 18, std::nullopt}},
};

}  // namespace

const GgufType* gguf_type(std::int32_t id) {
  const auto found = std::ranges::find(kTypes, id, &Row::id);
  return found == kTypes.end() ? nullptr : &found->type;
}

std::optional<std::int32_t> gguf_type_id(DType dtype) {
  const auto found = std::ranges::find(kTypes, std::optional(dtype), [](const Row& row) { return row.type.dtype; });
  return found == kTypes.end() ? std::nullopt : std::optional(found->id);
}

std::string supported_type_names() {
  std::string names;
  for (const Row& row : kTypes) {
    if (!row.type.dtype || *row.type.dtype == DType::kI32) continue;
    if (!names.empty()) names += ", ";
    names += row.type.name;
  }
  return names;
}

}  // namespace weir::load
