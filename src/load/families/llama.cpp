// Llama 1-3 and relatives (SmolLM, Yi, ...). GGUF's "llama" is also what Mistral's and Mixtral's files say they are.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"LlamaForCausalLM", "llama"}};
constexpr std::string_view kGguf[] = {"llama"};

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {}, model.spec));
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(model.biases.ffn, read_hf_bias(config, "mlp_bias"));
  return {};
}

// The converter reorders the rows of q and k for this architecture.
Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {.pairing = RopeSpec::Pairing::kAdjacent}, model.spec));
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, model.spec));
  set_gguf_router_defaults(keys, {.normalise = true}, model.spec);
  model.biases = {Presence::kOptional, Presence::kOptional, Presence::kOptional};
  return {};
}

}  // namespace

extern const Family kLlamaFamily = {.name = "llama",
                                    .classes = kClasses,
                                    .read_config = read_config,
                                    .gguf_architectures = kGguf,
                                    .read_gguf = read_gguf};

}  // namespace weir::load
