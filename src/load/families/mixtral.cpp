// Mixtral: Mistral with a mixture of experts. Its GGUF files say "llama".
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"MixtralForCausalLM", "mixtral"}};
constexpr std::int64_t kContext = 131072;
constexpr double kTheta = 1'000'000.0, kEps = 1e-5;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.context = kContext, .theta = kTheta, .eps = kEps}, model.spec));
  WEIR_RETURN_IF_ERROR(read_hf_experts(config, "intermediate_size", model.spec));
  model.spec.experts.router.normalise = true;
  WEIR_TRY(const int window, read_hf_window(config, 0));
  for (LayerSpec& layer : model.spec.layer) layer.window = window;
  return {};
}

void name_hf_tensors(const ModelSpec&, TensorMap& map) {
  map.name("ffn_gate_inp", "block_sparse_moe.gate")
      .name("ffn_gate.#", "block_sparse_moe.experts.#.w1")
      .name("ffn_down.#", "block_sparse_moe.experts.#.w2")
      .name("ffn_up.#", "block_sparse_moe.experts.#.w3");
}

}  // namespace

extern const Family kMixtralFamily = {.name = "mixtral",
                                      .classes = kClasses,
                                      .read_config = read_config,
                                      .name_hf_tensors = name_hf_tensors,
                                      .written_as = "llama"};

}  // namespace weir::load
