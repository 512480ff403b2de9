// K-EXAONE: EXAONE 4's layers with norms of what each branch reads, and DeepSeek V3's routers and shared experts.
#include "load/exaone_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {
    {"ExaoneMoeForCausalLM", "exaone_moe"},
    {"ExaoneMoEForCausalLM", "exaone_moe"}};  // the library's name, and as published
constexpr std::string_view kGguf[] = {"exaone-moe"};
constexpr double kScale = 2.5;

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_exaone(config, spec));
  WEIR_RETURN_IF_ERROR(read_hf_corrected_experts(config, spec));
  ExpertsSpec& experts = spec.experts;
  WEIR_TRY(const auto shared, config.integer("num_shared_experts", {0, 64}));
  experts.shared_ffn = static_cast<int>(shared.value_or(1)) * experts.ffn;
  WEIR_TRY(const auto scale, config.number("routed_scaling_factor"));
  experts.router.scale = static_cast<float>(scale.value_or(kScale));
  if (!config.has("mlp_layer_types") && !config.has("first_k_dense_replace")) spec.layer[0].sparse = false;
  return {};
}

void name_hf_tensors(const ModelSpec&, TensorMap& map) {
  map.name("exp_probs_b.bias", "mlp.e_score_correction_bias");
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_exaone(keys, spec));
  return read_gguf_corrected_experts(keys, true, spec);
}

}  // namespace

extern const Family kExaoneMoeFamily = {.name = "exaone_moe",
                                        .classes = kClasses,
                                        .read_config = read_config,
                                        .name_hf_tensors = name_hf_tensors,
                                        .gguf_architectures = kGguf,
                                        .read_gguf = read_gguf};

}  // namespace weir::load
