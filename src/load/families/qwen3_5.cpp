// Qwen 3.5: Qwen3-Next with each projection of a delta net in a matrix of its own; dense, or with experts.
#include "load/delta_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kDense[] = {{"Qwen3_5ForCausalLM", "qwen3_5_text"}};
constexpr Family::HfClass kSparse[] = {{"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text"}};
constexpr std::string_view kDenseGguf[] = {"qwen35"}, kSparseGguf[] = {"qwen35moe"};

Status read_dense_config(const JsonFields& config, ParsedModel& model) {
  return read_hf_delta_decoder(config, {}, model);
}

Status read_sparse_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_delta_decoder(config, {.ffn_key = "moe_intermediate_size"}, model));
  WEIR_RETURN_IF_ERROR(read_hf_experts(config, "moe_intermediate_size", spec));
  spec.experts.router.normalise = true;
  return read_hf_gated_expert(config, spec);
}

void name_hf_tensors(const ModelSpec& spec, TensorMap& map) {
  name_hf_delta(spec, map);
  map.fused({.file = "linear_attn.in_proj_qkv", .parts = {"ssm_q", "ssm_k", "ssm_v"}})
      .name("ssm_z", "linear_attn.in_proj_z")
      .name("ssm_beta", "linear_attn.in_proj_b")
      .name("ssm_alpha", "linear_attn.in_proj_a");
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_delta_decoder(keys, spec));
  // The converter reorders them for this architecture, so that heads in a row use key heads in a row.
  spec.delta.tiled = true;
  return read_gguf_delta_experts(keys, spec);
}

void name_gguf_tensors(const ModelSpec& spec, const GgufLayout&, TensorMap& map) {
  name_gguf_delta(spec, map);
}

}  // namespace

extern const Family kQwen35Family = {.name = "qwen3_5",
                                     .classes = kDense,
                                     .read_config = read_dense_config,
                                     .name_hf_tensors = name_hf_tensors,
                                     .gguf_architectures = kDenseGguf,
                                     .read_gguf = read_gguf,
                                     .name_gguf_tensors = name_gguf_tensors};
extern const Family kQwen35MoeFamily = {.name = "qwen3_5_moe",
                                        .classes = kSparse,
                                        .read_config = read_sparse_config,
                                        .name_hf_tensors = name_hf_tensors,
                                        .gguf_architectures = kSparseGguf,
                                        .read_gguf = read_gguf,
                                        .name_gguf_tensors = name_gguf_tensors};

}  // namespace weir::load
