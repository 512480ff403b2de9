// Qwen3-Next: three gated delta nets to one attention, whose output has a gate; experts, and one that all tokens share.
#include "load/delta_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Qwen3NextForCausalLM", "qwen3_next"}};
constexpr std::string_view kGguf[] = {"qwen3next"};

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_delta_decoder(config, {}, model));
  WEIR_RETURN_IF_ERROR(read_hf_experts(config, "moe_intermediate_size", spec));
  WEIR_RETURN_IF_ERROR(read_hf_sparse_layers(config, spec));
  WEIR_TRY(const auto normalise, config.boolean("norm_topk_prob"));
  spec.experts.router.normalise = normalise.value_or(true);
  return read_hf_gated_expert(config, spec);
}

void name_hf_tensors(const ModelSpec& spec, TensorMap& map) {
  name_hf_delta(spec, map);
  map.fused({.file = "linear_attn.in_proj_qkvz",
             .parts = {"ssm_q", "ssm_k", "ssm_v", "ssm_z"},
             .groups = spec.delta.key_heads})
      .fused({.file = "linear_attn.in_proj_ba", .parts = {"ssm_beta", "ssm_alpha"}, .groups = spec.delta.key_heads});
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_delta_decoder(keys, spec));
  return read_gguf_delta_experts(keys, spec);
}

void name_gguf_tensors(const ModelSpec& spec, const GgufLayout&, TensorMap& map) {
  name_gguf_delta(spec, map);
  map.fused({.file = "ssm_ba", .parts = {"ssm_beta", "ssm_alpha"}, .groups = spec.delta.key_heads});
}

}  // namespace

extern const Family kQwen3NextFamily = {.name = "qwen3_next",
                                        .classes = kClasses,
                                        .read_config = read_config,
                                        .name_hf_tensors = name_hf_tensors,
                                        .gguf_architectures = kGguf,
                                        .read_gguf = read_gguf,
                                        .name_gguf_tensors = name_gguf_tensors};

}  // namespace weir::load
