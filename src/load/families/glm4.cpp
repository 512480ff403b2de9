// GLM-4 (dense, 0414): norms around each branch, half of a head rotated in adjacent pairs, gate and up in one matrix.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Glm4ForCausalLM", "glm4"}};
constexpr std::string_view kGguf[] = {"glm4"};
constexpr int kHeadDim = 128;
constexpr std::int64_t kContext = 131072;
constexpr double kEps = 1.5625e-7, kRotated = 0.5;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config,
                                       {.head_dim = kHeadDim,
                                        .context = kContext,
                                        .rotated = kRotated,
                                        .eps = kEps,
                                        .pairing = RopeSpec::Pairing::kAdjacent},
                                       model.spec));
  model.spec.post_norms = true;
  WEIR_TRY(model.biases.qkv, read_hf_bias(config, "attention_bias", true));
  return {};
}

void name_hf_tensors(const ModelSpec&, TensorMap& map) {
  map.name("post_attention_norm", "post_self_attn_layernorm").name("post_ffw_norm", "post_mlp_layernorm");
  name_hf_gate_up(map);
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {.pairing = RopeSpec::Pairing::kAdjacent}, model.spec));
  model.spec.post_norms = true;
  model.biases.qkv = Presence::kOptional;
  return {};
}

void name_gguf_tensors(const ModelSpec&, const GgufLayout& file, TensorMap& map) {
  name_gguf_gate_up(file, map);
}

}  // namespace

extern const Family kGlm4Family = {.name = "glm4",
                                   .classes = kClasses,
                                   .read_config = read_config,
                                   .name_hf_tensors = name_hf_tensors,
                                   .gguf_architectures = kGguf,
                                   .read_gguf = read_gguf,
                                   .name_gguf_tensors = name_gguf_tensors};

}  // namespace weir::load
