// Qwen 3 MoE: Qwen 3 with experts.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Qwen3MoeForCausalLM", "qwen3_moe"}};
constexpr std::string_view kGguf[] = {"qwen3moe"};
constexpr std::int64_t kContext = 32768;
constexpr int kWindow = 4096;

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.context = kContext}, spec));
  spec.qk_norm = QkNorm::kHead;
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_RETURN_IF_ERROR(read_hf_experts(config, "moe_intermediate_size", spec));
  WEIR_RETURN_IF_ERROR(read_hf_sparse_layers(config, spec));
  WEIR_TRY(const auto use, config.boolean("use_sliding_window"));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  for (LayerSpec& layer : spec.layer) layer.window = use.value_or(false) ? window : 0;
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, model.spec));
  model.spec.qk_norm = QkNorm::kHead;
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, model.spec));
  set_gguf_router_defaults(keys, {.normalise = true}, model.spec);
  return {};
}

}  // namespace

extern const Family kQwen3MoeFamily = {.name = "qwen3_moe",
                                       .classes = kClasses,
                                       .read_config = read_config,
                                       .gguf_architectures = kGguf,
                                       .read_gguf = read_gguf};

}  // namespace weir::load
