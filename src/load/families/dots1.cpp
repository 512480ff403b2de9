// dots.llm1: Qwen 3's attention with DeepSeek V3's routers and shared experts.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Dots1ForCausalLM", "dots1"}};
constexpr std::string_view kGguf[] = {"dots1"};
constexpr std::int64_t kContext = 2048, kFullLayers = 62;
constexpr int kWindow = 4096;

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.context = kContext}, spec));
  spec.qk_norm = QkNorm::kHead;
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  WEIR_TRY(const auto full_layers, config.integer("max_window_layers", {0, 1 << 30}));
  WEIR_TRY(const auto local, read_hf_layer_types(config, spec.layers, "sliding_attention", [&](int layer) {
             return layer >= full_layers.value_or(kFullLayers);
           }));
  set_windows(local, window, spec);
  WEIR_RETURN_IF_ERROR(read_hf_corrected_experts(config, spec));
  WEIR_TRY(const auto normalise, config.boolean("norm_topk_prob"));
  spec.experts.router.normalise = normalise.value_or(false);
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  spec.qk_norm = QkNorm::kHead;
  return read_gguf_corrected_experts(keys, false, spec);
}

}  // namespace

extern const Family kDots1Family = {.name = "dots1",
                                    .classes = kClasses,
                                    .read_config = read_config,
                                    .gguf_architectures = kGguf,
                                    .read_gguf = read_gguf};

}  // namespace weir::load
