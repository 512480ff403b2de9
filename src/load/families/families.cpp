#include <algorithm>

#include "base/check.h"
#include "load/families/family.h"

namespace weir::load {

#define WEIR_FAMILY(name) extern const Family name;
#include "load/families/table.inc"
#undef WEIR_FAMILY

std::span<const Family* const> families() {
#define WEIR_FAMILY(name) &name,
  static constexpr const Family* kAll[] = {
#include "load/families/table.inc"
  };
#undef WEIR_FAMILY
  return kAll;
}

const Family& family_named(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  CHECK(found != families().end(), "no family {}", name);
  return **found;
}

const Family* family_reading(std::string_view architecture) {
  for (const Family* family : families()) {
    if (std::ranges::find(family->gguf_architectures, architecture) != family->gguf_architectures.end()) return family;
  }
  return nullptr;
}

TensorMap gguf_names(const Family& family, const ModelSpec& spec, const GgufLayout& file) {
  TensorMap map = gguf_tensor_map(spec, file);
  if (family.name_gguf_tensors != nullptr) family.name_gguf_tensors(spec, file, map);
  return map;
}

}  // namespace weir::load
