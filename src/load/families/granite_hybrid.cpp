// Granite 4 where every layer is attention (micro, 350M, 1B): Granite with gate and up in one matrix. The hybrids with
// Mamba layers are refused.
#include <nlohmann/json.hpp>

#include "load/granite_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"GraniteMoeHybridForCausalLM", "granitemoehybrid"}};

Status check_layers(const JsonFields& config) {
  const nlohmann::json* types = config.member("layer_types");
  const auto attends = [](const nlohmann::json& type) { return type == "attention" || type == "full_attention"; };
  if (types != nullptr && types->is_array() && std::ranges::all_of(*types, attends)) return {};
  return fail_at("layer_types", ErrorCode::kUnsupported,
                 "{}: layers of other types than attention (Mamba) are not supported", config.file());
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(check_layers(config));
  WEIR_RETURN_IF_ERROR(read_hf_granite(config, model));
  WEIR_TRY(const auto experts, config.integer("num_local_experts", {0, 4096}));
  if (experts.value_or(1) != 0) {
    return fail_at("num_local_experts", ErrorCode::kUnsupported, "{}: Granite 4 with experts is not supported",
                   config.file());
  }
  WEIR_TRY(spec.ffn, config.required("shared_intermediate_size", kFfnRange));
  WEIR_TRY(const auto positions, config.string("position_embedding_type"));
  if (positions.value_or("") != "rope") {
    for (LayerSpec& layer : spec.layer) layer.rope = -1;
  }
  return {};
}

void name_hf_tensors(const ModelSpec&, TensorMap& map) {
  map.fused({.file = "shared_mlp.input_linear", .parts = {"ffn_gate", "ffn_up"}})
      .name("ffn_down", "shared_mlp.output_linear");
}

}  // namespace

extern const Family kGraniteHybridFamily = {.name = "granite_hybrid",
                                            .classes = kClasses,
                                            .read_config = read_config,
                                            .name_hf_tensors = name_hf_tensors,
                                            .written_as = "granite"};

}  // namespace weir::load
