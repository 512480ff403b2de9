// OLMo 3: OLMo 2 with a sliding window in three of four layers, whose rotation is never stretched. Its GGUF files say
// "olmo2".
#include "load/olmo_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Olmo3ForCausalLM", "olmo3"}};
constexpr double kEps = 1e-5, kTheta = 500000.0;
constexpr int kWindow = 4096;

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  const HfDefaults defaults = {.theta = kTheta, .eps = kEps};
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, defaults, spec));
  place_olmo_norms(spec);
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  WEIR_TRY(const auto local, read_hf_layer_types(config, spec.layers, "sliding_attention",
                                                 [](int layer) { return (layer + 1) % kOlmoPattern != 0; }));
  WEIR_TRY(const auto parameters, hf_rope_parameters(config, "sliding_attention"));
  WEIR_TRY(auto rope, read_hf_rope(parameters ? &*parameters : nullptr, config, spec, spec.head_dim, defaults));
  set_olmo_windows(local, window, std::move(rope), spec);
  return {};
}

}  // namespace

extern const Family kOlmo3Family = {
    .name = "olmo3", .classes = kClasses, .read_config = read_config, .written_as = "olmo2"};

}  // namespace weir::load
