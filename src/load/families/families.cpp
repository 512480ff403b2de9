#include <algorithm>

#include "base/check.h"
#include "load/families/family.h"

// A line for each file in this folder.
#define WEIR_FAMILIES(family)                                                                                   \
  family(kLlamaFamily) family(kMistralFamily) family(kQwen2Family) family(kQwen3Family) family(kGemma2Family)   \
      family(kGemma3Family) family(kPhi3Family) family(kOlmo2Family) family(kGraniteFamily) family(kGlm4Family) \
          family(kSmolLm3Family) family(kExaone4Family) family(kCohere2Family)

namespace weir::load {

#define WEIR_DECLARE(name) extern const Family name;
WEIR_FAMILIES(WEIR_DECLARE)

std::span<const Family* const> families() {
#define WEIR_ENTRY(name) &name,
  static constexpr const Family* kAll[] = {WEIR_FAMILIES(WEIR_ENTRY)};
  return kAll;
}

const Family& family_named(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  CHECK(found != families().end(), "no family {}", name);
  return **found;
}

}  // namespace weir::load
