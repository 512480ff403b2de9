// Cohere (Command R): Cohere 2 without windows, every layer with a position embedding.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"CohereForCausalLM", "cohere"}};
constexpr std::string_view kGguf[] = {"command-r"};
constexpr std::int64_t kContext = 8192;
constexpr double kTheta = 500000.0, kEps = 1e-5, kLogitScale = 0.0625;

void set_parts(double logit_scale, ModelSpec& spec) {
  spec.norm = NormKind::kLayer;
  spec.parallel = true;
  spec.logit_scale = static_cast<float>(logit_scale);
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config,
                                       {.context = kContext,
                                        .theta = kTheta,
                                        .eps_key = "layer_norm_eps",
                                        .eps = kEps,
                                        .tied = true,
                                        .pairing = RopeSpec::Pairing::kAdjacent},
                                       model.spec));
  WEIR_TRY(const auto head_norms, config.boolean("use_qk_norm"));
  if (head_norms.value_or(false)) {
    return fail_at("use_qk_norm", ErrorCode::kUnsupported,
                   "{}: \"use_qk_norm\" is true (Command R+): a norm of its own for each head is not supported",
                   config.file());
  }
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(const auto scale, config.number("logit_scale"));
  set_parts(scale.value_or(kLogitScale), model.spec);
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(
      keys, {.pairing = RopeSpec::Pairing::kAdjacent, .eps_key = "attention.layer_norm_epsilon"}, model.spec));
  if (keys.has_tensor("blk.0.attn_q_norm.weight")) {
    return fail_at("blk.0.attn_q_norm.weight", ErrorCode::kUnsupported,
                   "{}: blk.0.attn_q_norm.weight: a norm of its own for each head (Command R+) is not supported",
                   keys.file());
  }
  WEIR_TRY(const double scale, keys.number_or("logit_scale", kLogitScale));
  set_parts(scale, model.spec);
  return {};
}

}  // namespace

extern const Family kCohereFamily = {.name = "cohere",
                                     .classes = kClasses,
                                     .read_config = read_config,
                                     .gguf_architectures = kGguf,
                                     .read_gguf = read_gguf};

}  // namespace weir::load
