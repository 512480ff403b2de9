// Seed-OSS: Llama with biases of q, k and v.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"SeedOssForCausalLM", "seed_oss"}};
constexpr std::string_view kGguf[] = {"seed_oss"};
constexpr int kHeadDim = 128;
constexpr std::int64_t kContext = 524288;

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.head_dim = kHeadDim, .context = kContext}, model.spec));
  WEIR_TRY(model.biases.qkv, read_hf_bias(config, "attention_bias", true));
  WEIR_TRY(model.biases.attention_output, read_hf_bias(config, "attention_out_bias"));
  WEIR_TRY(model.biases.ffn, read_hf_bias(config, "mlp_bias"));
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, model.spec));
  model.biases = {Presence::kOptional, Presence::kOptional, Presence::kOptional};
  return {};
}

}  // namespace

extern const Family kSeedOssFamily = {.name = "seed_oss",
                                      .classes = kClasses,
                                      .read_config = read_config,
                                      .gguf_architectures = kGguf,
                                      .read_gguf = read_gguf,
                                      .name_gguf_tensors = name_gguf_post_attention_norm};

}  // namespace weir::load
