// DeepSeek V3.2: V3 where an indexer chooses the positions that each query attends to.
#include "load/latent_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"DeepseekV32ForCausalLM", "deepseek_v32"}};

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_latent(config, /*interleaved=*/true, model));
  WEIR_RETURN_IF_ERROR(read_hf_corrected_experts(config, spec));
  IndexerSpec& indexer = spec.indexer;
  WEIR_TRY(indexer.heads, config.required("index_n_heads", kHeadRange));
  WEIR_TRY(indexer.head_dim, config.required("index_head_dim", kHeadDimRange));
  WEIR_TRY(indexer.positions, config.required("index_topk", {1, 1 << 20}));
  // The same angles, on the halves of what is rotated, at the beginning of a head.
  indexer.rope = static_cast<int>(spec.ropes.size());
  spec.ropes.push_back(spec.ropes[0]);
  spec.ropes.back().pairing = RopeSpec::Pairing::kHalves;
  return {};
}

void name_hf_tensors(const ModelSpec& spec, TensorMap& map) {
  name_hf_latent(spec, map);
  map.name("indexer.attn_q_b", "self_attn.indexer.wq_b")
      .name("indexer.attn_k", "self_attn.indexer.wk")
      .name("indexer.k_norm", "self_attn.indexer.k_norm")
      .name("indexer.proj", "self_attn.indexer.weights_proj");
}

}  // namespace

extern const Family kDeepseekV32Family = {
    .name = "deepseek_v32", .classes = kClasses, .read_config = read_config, .name_hf_tensors = name_hf_tensors};

}  // namespace weir::load
