// GLM-4.7-Flash: DeepSeek V3's latent attention and routers under GLM's name. Its GGUF files say "deepseek2".
#include "load/latent_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Glm4MoeLiteForCausalLM", "glm4_moe_lite"}};

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_TRY(const auto interleaved, config.boolean("rope_interleave"));
  WEIR_RETURN_IF_ERROR(read_hf_latent(config, interleaved.value_or(true), model));
  WEIR_RETURN_IF_ERROR(read_hf_corrected_experts(config, spec));
  // Where nothing is said, the first layer alone is dense.
  if (!config.has("mlp_layer_types") && !config.has("first_k_dense_replace")) spec.layer[0].sparse = false;
  return {};
}

}  // namespace

extern const Family kGlm4MoeLiteFamily = {.name = "glm4_moe_lite",
                                          .classes = kClasses,
                                          .read_config = read_config,
                                          .name_hf_tensors = name_hf_latent,
                                          .written_as = "deepseek2"};

}  // namespace weir::load
