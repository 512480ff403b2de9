#include "load/latent_parts.h"

#include <cmath>

namespace weir::load {
namespace {

constexpr int kQueryRank = 1536;   // where the key is absent; null says none
constexpr double kNormEps = 1e-6;  // the reference's, whatever rms_norm_eps says

}  // namespace

Status read_hf_latent(const JsonFields& config, bool interleaved, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  LatentSpec& latent = spec.latent;
  WEIR_TRY(const auto query_rank, config.integer("q_lora_rank", kHiddenRange));
  latent.query_rank = static_cast<int>(query_rank.value_or(config.names("q_lora_rank") ? 0 : kQueryRank));
  WEIR_TRY(latent.rank, config.required("kv_lora_rank", kHiddenRange));
  WEIR_TRY(latent.plain_dim, config.required("qk_nope_head_dim", kHeadDimRange));
  WEIR_TRY(latent.rope_dim, config.required("qk_rope_head_dim", kHeadDimRange));
  WEIR_TRY(latent.value_dim, config.required("v_head_dim", kHeadDimRange));
  latent.norm_eps = static_cast<float>(kNormEps);
  HfDefaults defaults;
  // What the reference calls a head's dimension is what of it is rotated.
  defaults.head_dim = latent.rope_dim;
  if (interleaved) defaults.pairing = RopeSpec::Pairing::kAdjacent;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, defaults, spec));
  spec.head_dim = latent.plain_dim + latent.rope_dim;
  spec.kv_heads = 1;
  WEIR_TRY(const auto parameters, hf_rope_parameters(config, "full_attention"));
  WEIR_TRY(spec.ropes[0], read_hf_rope(parameters ? &*parameters : nullptr, config, spec, latent.rope_dim, defaults));
  double scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  if (parameters && spec.ropes[0].scaling != RopeSpec::Scaling::kNone) {
    WEIR_TRY(const auto all_dims, parameters->number("mscale_all_dim"));
    if (all_dims.value_or(0.0) != 0.0) scale *= std::pow(yarn_magnitude(spec.ropes[0].factor, *all_dims), 2);
  }
  spec.attention_scale = static_cast<float>(scale);
  for (LayerSpec& layer : spec.layer) layer.mixer = Mixer::kLatent;
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  return {};
}

void name_hf_latent(const ModelSpec&, TensorMap& map) {
  map.name("attn_q_a", "self_attn.q_a_proj")
      .name("attn_q_a_norm", "self_attn.q_a_layernorm")
      .name("attn_q_b", "self_attn.q_b_proj")
      .name("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa")
      .name("attn_kv_a_norm", "self_attn.kv_a_layernorm")
      .fused({.file = "self_attn.kv_b_proj",
              .parts = {"attn_k_b.#", "attn_v_b.#"},
              .stacked = true,
              .flat = true,
              .transposed_parts = {"attn_k_b.#"}});
}

Status read_hf_indexer(const JsonFields& config, RopeSpec::Pairing pairing, ModelSpec& spec) {
  IndexerSpec& indexer = spec.indexer;
  WEIR_TRY(indexer.heads, config.required("index_n_heads", kHeadRange));
  WEIR_TRY(indexer.head_dim, config.required("index_head_dim", kHeadDimRange));
  WEIR_TRY(indexer.positions, config.required("index_topk", {1, 1 << 20}));
  // The angles of attention, at the beginning of a head.
  indexer.rope = static_cast<int>(spec.ropes.size());
  spec.ropes.push_back(spec.ropes[0]);
  spec.ropes.back().pairing = pairing;
  return {};
}

void name_hf_indexed(const ModelSpec& spec, TensorMap& map) {
  name_hf_latent(spec, map);
  map.name("indexer.attn_q_b", "self_attn.indexer.wq_b")
      .name("indexer.attn_k", "self_attn.indexer.wk")
      .name("indexer.k_norm", "self_attn.indexer.k_norm")
      .name("indexer.proj", "self_attn.indexer.weights_proj");
}

}  // namespace weir::load
