// DeepSeek V2: multi-head latent attention, experts chosen by softmax, perhaps within the best groups. GGUF's
// "deepseek2" is also what V3's files say they are; their gating function tells.
#include <cmath>

#include "load/latent_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"DeepseekV2ForCausalLM", "deepseek_v2"}};
constexpr std::string_view kGguf[] = {"deepseek2"};

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_latent(config, /*interleaved=*/true, model));
  WEIR_TRY(model.biases.ffn, read_hf_bias(config, "mlp_bias"));
  WEIR_RETURN_IF_ERROR(read_hf_grouped_experts(config, spec));
  RouterSpec& router = spec.experts.router;
  router.normalise = false;  // whatever norm_topk_prob says: the reference never does
  router.group_score = RouterSpec::GroupScore::kBest;
  WEIR_TRY(const auto method, config.string("topk_method"));
  if (method.value_or("greedy") == "greedy") {
    router.groups = router.groups_used = 1;
  } else if (*method != "group_limited_greedy") {
    return fail_at("topk_method", ErrorCode::kUnsupported,
                   "{}: experts chosen by \"{}\" are not supported; greedy and group_limited_greedy are", config.file(),
                   method->substr(0, 60));
  }
  return {};
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  LatentSpec& latent = spec.latent;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {.pairing = RopeSpec::Pairing::kAdjacent}, spec));
  RopeSpec& rope = spec.ropes[0];
  // Files of later converters state the lengths of latents, and those of heads by other keys.
  WEIR_TRY(const auto key_dim, keys.integer("attention.key_length_mla", kHeadDimRange));
  WEIR_TRY(const auto value_dim, keys.integer("attention.value_length_mla", kHeadDimRange));
  WEIR_TRY(const auto old_value_dim, keys.integer("attention.value_length", kHeadDimRange));
  WEIR_TRY(const auto query_rank, keys.integer("attention.q_lora_rank", kHiddenRange));
  WEIR_TRY(latent.rank, keys.required("attention.kv_lora_rank", kHiddenRange));
  spec.head_dim = static_cast<int>(key_dim.value_or(spec.head_dim));
  latent.query_rank = static_cast<int>(query_rank.value_or(0));
  latent.rope_dim = rope.dims;
  latent.plain_dim = spec.head_dim - latent.rope_dim;
  latent.value_dim = static_cast<int>(value_dim.value_or(old_value_dim.value_or(spec.head_dim)));
  latent.norm_eps = spec.rms_eps;
  spec.kv_heads = 1;
  double scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  if (rope.scaling == RopeSpec::Scaling::kYarn) {
    // The converter stores a tenth of mscale_all_dim.
    WEIR_TRY(const double tenth, keys.number_or("rope.scaling.yarn_log_multiplier", 0.0));
    if (tenth != 0.0) scale *= std::pow(yarn_magnitude(rope.factor, 10.0 * tenth), 2);
    rope.attention_factor = 1.0;
  }
  spec.attention_scale = static_cast<float>(scale);
  for (LayerSpec& layer : spec.layer) layer.mixer = Mixer::kLatent;
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, spec));
  RouterSpec& router = spec.experts.router;
  if (router.scores == RouterSpec::Scores::kSigmoid) {
    router.correction = true;
    router.sum_floor = 1e-20f;
  } else {
    router.group_score = RouterSpec::GroupScore::kBest;
  }
  return {};
}

void name_gguf_tensors(const ModelSpec&, const GgufLayout& file, TensorMap& map) {
  if (file.current("blk.0.attn_k_b.weight")) {
    map.stacked("attn_k_b.#", "attn_k_b").stacked("attn_v_b.#", "attn_v_b");
  } else {
    map.fused({.file = "attn_kv_b",
               .parts = {"attn_k_b.#", "attn_v_b.#"},
               .stacked = true,
               .flat = true,
               .transposed_parts = {"attn_k_b.#"}});
  }
}

}  // namespace

extern const Family kDeepseekV2Family = {.name = "deepseek_v2",
                                         .classes = kClasses,
                                         .read_config = read_config,
                                         .name_hf_tensors = name_hf_latent,
                                         .gguf_architectures = kGguf,
                                         .read_gguf = read_gguf,
                                         .name_gguf_tensors = name_gguf_tensors};

}  // namespace weir::load
