// Cohere 2 (Command R7B, A): LayerNorm without bias, attention and feed-forward side by side, three windowed layers
// with RoPE in adjacent pairs to one that sees everything and has no position embedding.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Cohere2ForCausalLM", "cohere2"}};
constexpr std::string_view kGguf[] = {"cohere2"};
constexpr std::int64_t kContext = 8192, kPattern = 4;
constexpr int kWindow = 4096;
constexpr double kEps = 1e-5, kLogitScale = 0.0625;

void set_layers(const std::vector<bool>& local, int window, ModelSpec& spec) {
  spec.norm = NormKind::kLayer;
  spec.parallel = true;
  set_windows(local, window, spec);
  for (std::size_t i = 0; i < local.size(); ++i) spec.layer[i].rope = local[i] ? 0 : -1;
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config,
                                       {.context = kContext,
                                        .eps_key = "layer_norm_eps",
                                        .eps = kEps,
                                        .tied = true,
                                        .pairing = RopeSpec::Pairing::kAdjacent},
                                       spec));
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(const auto scale, config.number("logit_scale"));
  spec.logit_scale = static_cast<float>(scale.value_or(kLogitScale));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  WEIR_TRY(const auto pattern, config.integer("sliding_window_pattern", kLayerRange));
  WEIR_TRY(const auto local, read_hf_layer_types(config, spec.layers, "sliding_attention", [&](int layer) {
             return (layer + 1) % pattern.value_or(kPattern) != 0;
           }));
  set_layers(local, window, spec);
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(
      keys, {.pairing = RopeSpec::Pairing::kAdjacent, .eps_key = "attention.layer_norm_epsilon"}, spec));
  WEIR_TRY(const double scale, keys.number_or("logit_scale", kLogitScale));
  spec.logit_scale = static_cast<float>(scale);
  WEIR_TRY(const int window, read_gguf_window(keys));
  WEIR_TRY(const auto local, read_gguf_local_layers(keys, spec.layers, kPattern));
  set_layers(local, window, spec);
  model.biases = {Presence::kOptional, Presence::kOptional, Presence::kAbsent};
  return {};
}

}  // namespace

extern const Family kCohere2Family = {.name = "cohere2",
                                      .classes = kClasses,
                                      .read_config = read_config,
                                      .gguf_architectures = kGguf,
                                      .read_gguf = read_gguf};

}  // namespace weir::load
