#include "model/families/families.h"

#include <array>
#include <string_view>

namespace weir::model {
namespace {

struct Family {
  std::string_view name;  // ModelSpec::family
  Result<std::unique_ptr<Model>> (*load)(const ModelSpec&, load::WeightSource&, Backend&, const ModelLimits&);
};

// Attention kernels read whole vectors of eight. Every published model keeps to it.
constexpr int kHeadDimUnit = 8;

constexpr std::array<Family, 4> kFamilies = {{
    {"llama", load_llama},
    {"qwen2", load_llama},
    {"qwen3", load_llama},
    {"gemma3", load_gemma3},
}};

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const ModelSpec& spec, load::WeightSource& weights, Backend& backend,
                                           const ModelLimits& limits) {
  if (spec.head_dim % kHeadDimUnit != 0) {
    return fail_at("head_dim", ErrorCode::kUnsupported, "heads have {} dimensions; attention needs a multiple of {}",
                   spec.head_dim, kHeadDimUnit);
  }
  for (const Family& family : kFamilies) {
    if (family.name == spec.family) return family.load(spec, weights, backend, limits);
  }
  return fail_at("architecture", ErrorCode::kUnsupported, "no model family '{}'", spec.family);
}

}  // namespace weir::model
