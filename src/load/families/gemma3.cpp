// Gemma 3 (text): head norms, and five sliding-window layers to one with full attention, each kind with its own RoPE.
#include "load/gemma_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Gemma3ForCausalLM", "gemma3_text"}};
constexpr std::string_view kGguf[] = {"gemma3"};
constexpr std::int64_t kPattern = 6, kContext = 131072;
constexpr int kWindow = 4096;
constexpr double kGlobalTheta = 1'000'000.0, kLocalTheta = 10000.0;
// Gemma 3 27B alone scales by hidden / heads instead of head_dim; its GGUF files have no key that says so.
constexpr int kLayersOf27B = 62;

void turn_local_layers(const std::vector<bool>& local, ModelSpec& spec) {
  for (std::size_t i = 0; i < local.size(); ++i) spec.layer[i].rope = local[i] ? 1 : 0;
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gemma_config(config, {.context = kContext, .theta = kGlobalTheta}, spec));
  spec.qk_norm = QkNorm::kHead;
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  const char* key = config.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  WEIR_TRY(const auto pattern, config.integer(key, kLayerRange));
  WEIR_TRY(const auto local, read_hf_layer_types(config, spec.layers, "sliding_attention", [&](int layer) {
             return (layer + 1) % pattern.value_or(kPattern) != 0;
           }));
  set_windows(local, window, spec);

  WEIR_TRY(const auto parameters, hf_rope_parameters(config, "sliding_attention"));
  WEIR_TRY(const auto theta, config.number("rope_local_base_freq"));
  // The configuration's own rope_theta is that of the global layers.
  HfDefaults defaults;
  WEIR_TRY(auto rope, read_hf_rope(parameters ? &*parameters : nullptr, config, spec, spec.head_dim, defaults));
  WEIR_TRY(const auto own_theta, parameters ? parameters->number("rope_theta") : Result<std::optional<double>>());
  rope.theta = own_theta.value_or(theta.value_or(kLocalTheta));
  spec.ropes.push_back(std::move(rope));
  turn_local_layers(local, spec);
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  const double divisor = spec.layers == kLayersOf27B ? static_cast<double>(spec.hidden / spec.heads) : spec.head_dim;
  WEIR_RETURN_IF_ERROR(read_gemma_gguf(keys, divisor, spec));
  spec.qk_norm = QkNorm::kHead;
  WEIR_TRY(const int window, read_gguf_window(keys));
  if (window == 0) return {};
  WEIR_TRY(const auto local, read_gguf_local_layers(keys, spec.layers, kPattern));
  RopeSpec rope;
  rope.pairing = spec.ropes[0].pairing;
  rope.dims = spec.ropes[0].dims;
  WEIR_TRY(rope.theta, keys.number_or("rope.freq_base_swa", kLocalTheta));
  spec.ropes.push_back(rope);
  set_windows(local, window, spec);
  turn_local_layers(local, spec);
  return {};
}

}  // namespace

extern const Family kGemma3Family = {.name = "gemma3",
                                     .classes = kClasses,
                                     .read_config = read_config,
                                     .name_hf_tensors = name_gemma_tensors,
                                     .gguf_architectures = kGguf,
                                     .read_gguf = read_gguf};

}  // namespace weir::load
