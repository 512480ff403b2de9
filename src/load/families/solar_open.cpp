// Solar Open: Llama's attention with GLM-4.5's routers, every layer sparse. Its GGUF files say "glm4moe".
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"SolarOpenForCausalLM", "solar_open"}};
constexpr int kHeadDim = 128;
constexpr std::int64_t kContext = 131072;
constexpr double kEps = 1e-5, kTheta = 1'000'000.0;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(
      config,
      {.head_dim = kHeadDim, .context = kContext, .theta = kTheta, .ffn_key = "moe_intermediate_size", .eps = kEps},
      model.spec));
  WEIR_TRY(model.biases.qkv, read_hf_bias(config, "attention_bias"));
  WEIR_RETURN_IF_ERROR(read_hf_corrected_experts(config, model.spec));
  for (LayerSpec& layer : model.spec.layer) layer.sparse = true;
  return {};
}

}  // namespace

extern const Family kSolarOpenFamily = {
    .name = "solar_open", .classes = kClasses, .read_config = read_config, .written_as = "glm4moe"};

}  // namespace weir::load
