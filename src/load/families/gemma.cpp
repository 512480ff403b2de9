// Gemma 1 and CodeGemma: Llama with embeddings scaled, norm weights stored less 1, and GELU.
#include <cmath>

#include "load/gemma_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"GemmaForCausalLM", "gemma"}};
constexpr std::string_view kGguf[] = {"gemma"};
constexpr std::int64_t kContext = 8192;

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gemma_config(config, {.context = kContext, .gelu_is_tanh = true}, spec));
  spec.post_norms = false;
  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  WEIR_RETURN_IF_ERROR(read_gemma_gguf(keys, spec.head_dim, spec));
  spec.post_norms = false;
  return {};
}

}  // namespace

extern const Family kGemmaFamily = {.name = "gemma",
                                    .classes = kClasses,
                                    .read_config = read_config,
                                    .gguf_architectures = kGguf,
                                    .read_gguf = read_gguf};

}  // namespace weir::load
