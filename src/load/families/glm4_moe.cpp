// GLM-4.5 and 4.6: head norms, half of a head rotated, DeepSeek's routers and shared experts, dense first layers.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Glm4MoeForCausalLM", "glm4_moe"}};
constexpr std::string_view kGguf[] = {"glm4moe"};
constexpr std::int64_t kContext = 131072;
constexpr double kEps = 1e-5, kRotated = 0.5;

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.context = kContext, .rotated = kRotated, .eps = kEps}, spec));
  WEIR_TRY(model.biases.qkv, read_hf_bias(config, "attention_bias"));
  WEIR_TRY(const auto qk_norm, config.boolean("use_qk_norm"));
  if (qk_norm.value_or(false)) spec.qk_norm = QkNorm::kHead;
  return read_hf_corrected_experts(config, spec);
}

// The file's layers count those that predict further tokens.
Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  model.biases.qkv = Presence::kOptional;
  if (keys.has_tensor("blk.0.attn_q_norm.weight")) spec.qk_norm = QkNorm::kHead;
  return read_gguf_corrected_experts(keys, true, spec);
}

}  // namespace

extern const Family kGlm4MoeFamily = {.name = "glm4_moe",
                                      .classes = kClasses,
                                      .read_config = read_config,
                                      .gguf_architectures = kGguf,
                                      .read_gguf = read_gguf,
                                      .name_gguf_tensors = name_gguf_post_attention_norm};

}  // namespace weir::load
