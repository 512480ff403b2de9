// SmolLM3: Llama where every fourth layer has no position embedding.
#include <nlohmann/json.hpp>

#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"SmolLM3ForCausalLM", "smollm3"}};
constexpr std::string_view kGguf[] = {"smollm3"};
constexpr std::int64_t kContext = 32768, kInterval = 4;
constexpr double kTheta = 2'000'000.0;

Status read_unrotated_layers(const JsonFields& config, ModelSpec& spec) {
  const nlohmann::json* flags = config.member("no_rope_layers");  // 1: the layer has a rotation
  WEIR_TRY(const auto interval, config.integer("no_rope_layer_interval", kLayerRange));
  if (flags != nullptr && (!flags->is_array() || flags->size() != spec.layer.size())) {
    return fail_at("no_rope_layers", ErrorCode::kCorruptFile, "{}: \"no_rope_layers\" has {} entries for {} layers",
                   config.file(), flags->size(), spec.layers);
  }
  for (std::size_t i = 0; i < spec.layer.size(); ++i) {
    const bool rotated =
        flags != nullptr ? (*flags)[i] != 0 : (static_cast<std::int64_t>(i) + 1) % interval.value_or(kInterval) != 0;
    if (!rotated) spec.layer[i].rope = -1;
  }
  return {};
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.context = kContext, .theta = kTheta, .tied = true}, spec));
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(model.biases.ffn, read_hf_bias(config, "mlp_bias"));
  WEIR_RETURN_IF_ERROR(read_unrotated_layers(config, spec));
  WEIR_TRY(const auto use, config.boolean("use_sliding_window"));
  WEIR_TRY(const int window, read_hf_window(config, 0));
  WEIR_TRY(const auto local, read_hf_layer_types(config, spec.layers, "sliding_attention", [&](int layer) {
             return spec.layer[static_cast<std::size_t>(layer)].rope < 0;
           }));
  set_windows(local, use.value_or(false) ? window : 0, spec);
  return {};
}

// The converter reorders the rows of q and k as for llama.
Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {.pairing = RopeSpec::Pairing::kAdjacent}, model.spec));
  for (std::size_t i = kInterval - 1; i < model.spec.layer.size(); i += kInterval) model.spec.layer[i].rope = -1;
  return {};
}

}  // namespace

extern const Family kSmolLm3Family = {.name = "smollm3",
                                      .classes = kClasses,
                                      .read_config = read_config,
                                      .gguf_architectures = kGguf,
                                      .read_gguf = read_gguf};

}  // namespace weir::load
