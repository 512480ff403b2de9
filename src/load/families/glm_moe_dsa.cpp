// GLM-5: DeepSeek V3.2 with the indexer's heads turned in adjacent pairs.
#include <nlohmann/json.hpp>

#include "load/latent_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"GlmMoeDsaForCausalLM", "glm_moe_dsa"}};
constexpr std::int64_t kDenseLayers = 3;

// Layers may use the choice of the layer before them, which is not supported.
Status check_indexers(const JsonFields& config) {
  WEIR_TRY(const auto every, config.integer("index_topk_freq", kLayerRange));
  const nlohmann::json* types = config.member("indexer_types");
  const bool shared =
      types != nullptr &&
      (!types->is_array() || std::ranges::any_of(*types, [](const auto& type) { return type != "full"; }));
  if (!shared && every.value_or(1) == 1 && !config.has("index_topk_pattern")) return {};
  return fail_at(shared ? "indexer_types" : "index_topk_freq", ErrorCode::kUnsupported,
                 "{}: layers that attend to the positions an earlier layer's indexer chose are not supported",
                 config.file());
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(check_indexers(config));
  WEIR_RETURN_IF_ERROR(read_hf_latent(config, /*interleaved=*/true, model));
  WEIR_RETURN_IF_ERROR(read_hf_corrected_experts(config, spec));
  if (!config.has("mlp_layer_types") && !config.has("first_k_dense_replace")) {
    for (std::size_t i = 0; i < spec.layer.size() && i < kDenseLayers; ++i) spec.layer[i].sparse = false;
  }
  return read_hf_indexer(config, RopeSpec::Pairing::kAdjacent, spec);
}

}  // namespace

extern const Family kGlmMoeDsaFamily = {
    .name = "glm_moe_dsa", .classes = kClasses, .read_config = read_config, .name_hf_tensors = name_hf_indexed};

}  // namespace weir::load
