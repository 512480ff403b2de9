#include "load/granite_parts.h"

namespace weir::load {

Status read_hf_granite(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {}, spec));
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(const auto embedding, config.number("embedding_multiplier"));
  WEIR_TRY(const auto residual, config.number("residual_multiplier"));
  WEIR_TRY(const auto attention, config.number("attention_multiplier"));
  WEIR_TRY(const auto logits, config.number("logits_scaling"));
  spec.embedding_scale = static_cast<float>(embedding.value_or(1.0));
  spec.residual_scale = static_cast<float>(residual.value_or(1.0));
  spec.attention_scale = static_cast<float>(attention.value_or(1.0));
  spec.logit_scale = static_cast<float>(1.0 / logits.value_or(1.0));
  return {};
}

// The converter reorders the rows of q and k as for llama. 0 stands for "none".
Status read_gguf_granite(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {.pairing = RopeSpec::Pairing::kAdjacent}, spec));
  const auto multiplier = [&](std::string_view key) -> Result<double> {
    WEIR_TRY(const double value, keys.number_or(key, 1.0));
    return value == 0.0 ? 1.0 : value;
  };
  WEIR_TRY(const double embedding, multiplier("embedding_scale"));
  WEIR_TRY(const double residual, multiplier("residual_scale"));
  WEIR_TRY(const double logits, multiplier("logit_scale"));
  spec.embedding_scale = static_cast<float>(embedding);
  spec.residual_scale = static_cast<float>(residual);
  spec.logit_scale = static_cast<float>(1.0 / logits);
  model.biases = {Presence::kOptional, Presence::kOptional, Presence::kOptional};
  return {};
}

}  // namespace weir::load
