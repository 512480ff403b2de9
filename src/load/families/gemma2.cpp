// Gemma 2: every other layer has a sliding window; softcaps on attention scores and logits.
#include "load/gemma_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Gemma2ForCausalLM", "gemma2"}};
constexpr std::string_view kGguf[] = {"gemma2"};
constexpr std::int64_t kContext = 8192, kPattern = 2;
constexpr int kWindow = 4096;
constexpr double kAttentionCap = 50.0, kFinalCap = 30.0;
// Gemma 2 27B alone scales by hidden / heads instead of head_dim; its GGUF files have no key that says so.
constexpr int kLayersOf27B = 46;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gemma_config(
      config, {.context = kContext, .attention_softcap = kAttentionCap, .final_softcap = kFinalCap}, model.spec));
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  WEIR_TRY(const auto local, read_hf_layer_types(config, model.spec.layers, "sliding_attention",
                                                 [](int layer) { return (layer + 1) % kPattern != 0; }));
  set_windows(local, window, model.spec);
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  const double divisor = spec.layers == kLayersOf27B ? static_cast<double>(spec.hidden / spec.heads) : spec.head_dim;
  WEIR_RETURN_IF_ERROR(read_gemma_gguf(keys, divisor, spec));
  WEIR_TRY(const auto attention_cap, keys.number_or("attn_logit_softcapping", kAttentionCap));
  WEIR_TRY(const auto final_cap, keys.number_or("final_logit_softcapping", kFinalCap));
  spec.attention_softcap = static_cast<float>(attention_cap);
  spec.final_softcap = static_cast<float>(final_cap);
  WEIR_TRY(const auto local, read_gguf_local_layers(keys, spec.layers, kPattern));
  WEIR_TRY(const int window, read_gguf_window(keys));
  set_windows(local, window, spec);
  return {};
}

}  // namespace

extern const Family kGemma2Family = {.name = "gemma2",
                                     .classes = kClasses,
                                     .read_config = read_config,
                                     .name_hf_tensors = name_gemma_tensors,
                                     .gguf_architectures = kGguf,
                                     .read_gguf = read_gguf};

}  // namespace weir::load
