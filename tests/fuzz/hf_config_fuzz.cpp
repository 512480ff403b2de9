// Arbitrary bytes as a config.json: a spec within the limits or an error, never a crash.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "load/expected_tensors.h"
#include "load/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = weir::load::parse_json({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!config) return 0;
  const auto model = weir::load::spec_from_config(*config, "config.json");
  if (!model) return 0;
  const auto& spec = model->spec;
  if (spec.heads % spec.kv_heads != 0 || spec.layer.size() != static_cast<std::size_t>(spec.layers)) std::abort();
  for (const auto& layer : spec.layer) {
    if (layer.rope >= static_cast<int>(spec.ropes.size()) || layer.window < 0) std::abort();
  }
  if (weir::load::expected_tensors(spec, model->biases).empty()) std::abort();
  return 0;
}
