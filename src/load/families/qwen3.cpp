// Qwen 3 (dense): Llama with an RMSNorm of every head of q and k.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Qwen3ForCausalLM", "qwen3"}};
constexpr std::string_view kGguf[] = {"qwen3"};
constexpr int kHeadDim = 128, kWindow = 4096;
constexpr std::int64_t kFullLayers = 28;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.head_dim = kHeadDim}, model.spec));
  model.spec.qk_norm = QkNorm::kHead;
  WEIR_TRY(model.biases.qkv, read_hf_bias(config, "attention_bias"));
  model.biases.attention_output = model.biases.qkv;
  WEIR_TRY(const auto use, config.boolean("use_sliding_window"));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  WEIR_TRY(const auto full_layers, config.integer("max_window_layers", {0, 1 << 30}));
  WEIR_TRY(const auto local, read_hf_layer_types(config, model.spec.layers, "sliding_attention", [&](int layer) {
             return layer >= full_layers.value_or(kFullLayers);
           }));
  set_windows(local, use.value_or(false) ? window : 0, model.spec);
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  model.spec.qk_norm = QkNorm::kHead;
  return read_gguf_decoder(keys, {}, model.spec);
}

}  // namespace

extern const Family kQwen3Family = {.name = "qwen3",
                                    .classes = kClasses,
                                    .read_config = read_config,
                                    .gguf_architectures = kGguf,
                                    .read_gguf = read_gguf};

}  // namespace weir::load
