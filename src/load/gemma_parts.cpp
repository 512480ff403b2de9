#include "load/gemma_parts.h"

#include <algorithm>
#include <cmath>

namespace weir::load {
namespace {

constexpr int kHeadDim = 256;
constexpr double kQueryScalar = 256.0;

Result<float> read_softcap(const JsonFields& config, const char* key, double otherwise) {
  WEIR_TRY(const auto cap, config.number(key));
  return static_cast<float>(cap.value_or(config.names(key) ? 0.0 : otherwise));
}

}  // namespace

Status read_gemma_config(const JsonFields& config, const GemmaDefaults& defaults, ModelSpec& spec) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config,
                                       {.head_dim = kHeadDim,
                                        .context = defaults.context,
                                        .theta = defaults.theta,
                                        .tied = true,
                                        .activation = Activation::kGeluTanh,
                                        .gelu_is_tanh = defaults.gelu_is_tanh},
                                       spec));
  spec.post_norms = true;
  spec.norm_weight_offset = 1.0f;  // the file stores w - 1
  spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden)));
  WEIR_TRY(const auto scalar, config.number("query_pre_attn_scalar"));
  if (scalar && *scalar <= 0) {
    return fail_at("query_pre_attn_scalar", ErrorCode::kCorruptFile,
                   "{}: \"query_pre_attn_scalar\" is {}; a positive number expected", config.file(), *scalar);
  }
  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar.value_or(kQueryScalar)));
  WEIR_TRY(spec.attention_softcap, read_softcap(config, "attn_logit_softcapping", defaults.attention_softcap));
  WEIR_TRY(spec.final_softcap, read_softcap(config, "final_logit_softcapping", defaults.final_softcap));
  WEIR_TRY(const auto bidirectional, config.boolean("use_bidirectional_attention"));
  if (bidirectional.value_or(false)) {
    return fail_at("use_bidirectional_attention", ErrorCode::kUnsupported,
                   "{}: bidirectional attention (an embedding model) is not supported", config.file());
  }
  return {};
}

Status read_gemma_gguf(const GgufKeys& keys, double default_scale_divisor, ModelSpec& spec) {
  spec.post_norms = true;
  spec.activation = Activation::kGeluTanh;
  // llama.cpp writes no such key: weir does where the weights' own precision rounded the scale.
  WEIR_TRY(spec.embedding_scale, keys.number_or("embedding_scale", std::sqrt(static_cast<float>(spec.hidden))));
  WEIR_TRY(spec.attention_scale,
           keys.number_or("attention.scale", 1.0 / std::sqrt(std::max(default_scale_divisor, 1.0))));
  return {};
}

void name_gemma_tensors(const ModelSpec&, TensorMap& map) {
  map.name("ffn_norm", "pre_feedforward_layernorm");
}

}  // namespace weir::load
