// Ministral 3: Mistral whose queries grow with their position, every original context length of its YaRN.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Ministral3ForCausalLM", "ministral3"}};
constexpr std::string_view kGguf[] = {"mistral3"};
constexpr int kHeadDim = 128;
constexpr double kTheta = 1'000'000.0, kEps = 1e-5;

void set_growth(double growth, ModelSpec& spec) {
  if (growth == 0) return;
  spec.ropes.push_back(spec.ropes[0]);
  spec.ropes.back().growth = growth;
  for (LayerSpec& layer : spec.layer) layer.query_rope = 1;
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.head_dim = kHeadDim, .theta = kTheta, .eps = kEps}, spec));
  WEIR_TRY(const int window, read_hf_window(config, 0));
  for (LayerSpec& layer : spec.layer) layer.window = window;
  WEIR_TRY(const auto parameters, hf_rope_parameters(config, "full_attention"));
  if (!parameters) {
    return fail_at("rope_parameters", ErrorCode::kCorruptFile, "{}: \"rope_parameters\" is missing", config.file());
  }
  WEIR_TRY(const auto growth, parameters->number("llama_4_scaling_beta"));
  WEIR_TRY(const auto every, parameters->integer("original_max_position_embeddings", kContextRange));
  if (every) spec.ropes[0].original_context = *every;
  set_growth(growth.value_or(0.0), spec);
  return {};
}

// The converter reorders the rows of q and k as for llama.
Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {.pairing = RopeSpec::Pairing::kAdjacent}, model.spec));
  WEIR_TRY(const double growth, keys.number_or("attention.temperature_scale", 0.0));
  set_growth(growth, model.spec);
  return {};
}

}  // namespace

extern const Family kMinistral3Family = {.name = "ministral3",
                                         .classes = kClasses,
                                         .read_config = read_config,
                                         .gguf_architectures = kGguf,
                                         .read_gguf = read_gguf};

}  // namespace weir::load
