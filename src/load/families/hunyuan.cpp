// Hunyuan V1, dense and with experts: Llama with norms of the heads of q and k after their rotation, whose base a fixed
// factor may stretch (NTK-aware scaling); with experts, one of them for all tokens.
#include <cmath>
#include <nlohmann/json.hpp>

#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kDense[] = {{"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense"}};
constexpr Family::HfClass kSparse[] = {{"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe"}};
constexpr std::string_view kDenseGguf[] = {"hunyuan-dense"}, kSparseGguf[] = {"hunyuan-moe"};
constexpr std::int64_t kContext = 2048;
constexpr double kEps = 1e-5;
constexpr Range kExpertRange = {1, 4096};

Status read_decoder(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, {.context = kContext, .eps = kEps}, spec));
  spec.qk_norm = QkNorm::kTurnedHead;
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_TRY(const auto parameters, hf_rope_parameters(config, "full_attention"));
  if (!parameters) return {};
  WEIR_TRY(const auto alpha, parameters->number("alpha"));
  RopeSpec& rope = spec.ropes[0];
  if (alpha.value_or(0.0) != 0.0) rope.theta *= std::pow(*alpha, rope.dims / (rope.dims - 2.0));
  return {};
}

// Numbers of experts and the like are lists with an entry for each layer in some configurations. All must be alike.
Result<int> read_alike(const JsonFields& config, const char* key) {
  const nlohmann::json* list = config.member(key);
  if (list == nullptr || !list->is_array()) return config.required(key, kExpertRange);
  const bool alike = !list->empty() && std::ranges::all_of(*list, [&](const auto& entry) {
    return entry.is_number_integer() && entry == list->front() && entry >= kExpertRange.low &&
           entry <= kExpertRange.high;
  });
  if (!alike) {
    return fail_at(key, ErrorCode::kUnsupported, "{}: \"{}\" is a list; {} to {}, the same for all layers, expected",
                   config.file(), key, kExpertRange.low, kExpertRange.high);
  }
  return list->front().get<int>();
}

Status read_sparse_config(const JsonFields& config, ParsedModel& model) {
  ExpertsSpec& experts = model.spec.experts;
  WEIR_RETURN_IF_ERROR(read_decoder(config, model));
  WEIR_TRY(experts.count, read_alike(config, "num_experts"));
  WEIR_TRY(experts.used, read_alike(config, "moe_topk"));
  experts.ffn = experts.shared_ffn = model.spec.ffn;
  experts.router.normalise = true;
  for (LayerSpec& layer : model.spec.layer) layer.sparse = true;
  return {};
}

void name_hf_tensors(const ModelSpec& spec, TensorMap& map) {
  map.name("attn_q_norm", "self_attn.query_layernorm").name("attn_k_norm", "self_attn.key_layernorm");
  if (spec.experts.count == 0) return;
  map.name("ffn_gate_inp", "mlp.gate.wg")
      .name("ffn_gate_shexp", "mlp.shared_mlp.gate_proj")
      .name("ffn_up_shexp", "mlp.shared_mlp.up_proj")
      .name("ffn_down_shexp", "mlp.shared_mlp.down_proj");
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  spec.qk_norm = QkNorm::kTurnedHead;
  model.biases.qkv = model.biases.attention_output = Presence::kOptional;
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, spec));
  set_gguf_router_defaults(keys, {.normalise = true}, spec);
  return {};
}

}  // namespace

extern const Family kHunyuanFamily = {.name = "hunyuan",
                                      .classes = kDense,
                                      .read_config = read_decoder,
                                      .name_hf_tensors = name_hf_tensors,
                                      .gguf_architectures = kDenseGguf,
                                      .read_gguf = read_gguf};
extern const Family kHunyuanMoeFamily = {.name = "hunyuan_moe",
                                         .classes = kSparse,
                                         .read_config = read_sparse_config,
                                         .name_hf_tensors = name_hf_tensors,
                                         .gguf_architectures = kSparseGguf,
                                         .read_gguf = read_gguf};

}  // namespace weir::load
