// Qwen 1.5 and 2 MoE: Qwen 2 with experts, and one that all tokens share, weighed by a gate of its own.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Qwen2MoeForCausalLM", "qwen2_moe"}};
constexpr std::string_view kGguf[] = {"qwen2moe"};

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {}, spec));
  WEIR_TRY(model.biases.qkv, read_hf_bias(config, "qkv_bias", true));
  WEIR_RETURN_IF_ERROR(read_hf_experts(config, "moe_intermediate_size", spec));
  WEIR_RETURN_IF_ERROR(read_hf_sparse_layers(config, spec));
  WEIR_TRY(spec.experts.shared_ffn, config.required("shared_expert_intermediate_size", kFfnRange));
  spec.experts.shared_gate = true;
  return read_qwen_windows(
      config, [](int layer, std::int64_t windowed) { return layer % 2 == 0 && layer < windowed; }, spec);
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  model.biases.qkv = Presence::kRequired;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, spec));
  if (spec.experts.shared_ffn == 0) spec.experts.shared_ffn = spec.ffn;
  spec.experts.shared_gate = true;
  return {};
}

}  // namespace

extern const Family kQwen2MoeFamily = {.name = "qwen2_moe",
                                       .classes = kClasses,
                                       .read_config = read_config,
                                       .name_hf_tensors = name_qwen_shared_expert,
                                       .gguf_architectures = kGguf,
                                       .read_gguf = read_gguf};

}  // namespace weir::load
