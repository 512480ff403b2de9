#include "load/delta_parts.h"

namespace weir::load {
namespace {

constexpr std::int64_t kContext = 32768, kInterval = 4, kTaps = 4;
constexpr int kHeadDim = 256;
constexpr double kRotated = 0.25;
constexpr Range kTapRange = {1, 64};

void set_layers(const std::vector<bool>& linear, ModelSpec& spec) {
  spec.qk_norm = QkNorm::kHead;
  spec.attention_gate = true;
  for (std::size_t i = 0; i < linear.size(); ++i) {
    if (linear[i]) spec.layer[i].mixer = Mixer::kDelta;
  }
}

Status read_delta(const JsonFields& config, DeltaSpec& delta) {
  WEIR_TRY(delta.key_heads, config.required("linear_num_key_heads", kHeadRange));
  WEIR_TRY(delta.value_heads, config.required("linear_num_value_heads", kHeadRange));
  WEIR_TRY(delta.key_dim, config.required("linear_key_head_dim", kHeadDimRange));
  WEIR_TRY(delta.value_dim, config.required("linear_value_head_dim", kHeadDimRange));
  WEIR_TRY(const auto taps, config.integer("linear_conv_kernel_dim", kTapRange));
  delta.taps = static_cast<int>(taps.value_or(kTaps));
  delta.log_decay = true;
  return {};
}

// Each head's query is followed by its gate.
void name_gated_query(const ModelSpec& spec, const char* file, TensorMap& map) {
  map.fused({.file = file, .parts = {"attn_q", "attn_gate"}, .groups = spec.heads});
}

}  // namespace

Status read_hf_delta_decoder(const JsonFields& config, const HfDefaults& defaults, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  HfDefaults own = defaults;
  own.head_dim = kHeadDim;
  own.context = kContext;
  own.rotated = kRotated;
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, own, spec));
  spec.norm_weight_offset = 1.0f;  // the file stores w - 1
  WEIR_RETURN_IF_ERROR(read_hf_attention_bias(config, model.biases));
  WEIR_RETURN_IF_ERROR(read_delta(config, spec.delta));
  WEIR_TRY(const auto interval, config.integer("full_attention_interval", kLayerRange));
  WEIR_TRY(const auto linear, read_hf_layer_types(config, spec.layers, "linear_attention", [&](int layer) {
             return (layer + 1) % interval.value_or(kInterval) != 0;
           }));
  set_layers(linear, spec);
  return {};
}

Status read_gguf_delta_decoder(const GgufKeys& keys, ModelSpec& spec) {
  DeltaSpec& delta = spec.delta;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  WEIR_TRY(delta.key_heads, keys.required("ssm.group_count", kHeadRange));
  WEIR_TRY(delta.value_heads, keys.required("ssm.time_step_rank", kHeadRange));
  WEIR_TRY(delta.key_dim, keys.required("ssm.state_size", kHeadDimRange));
  WEIR_TRY(const auto values, keys.required("ssm.inner_size", kHiddenRange));
  WEIR_TRY(delta.taps, keys.required("ssm.conv_kernel", kTapRange));
  delta.value_dim = static_cast<int>(values / delta.value_heads);
  WEIR_TRY(const auto interval, keys.integer("full_attention_interval", kLayerRange));
  std::vector<bool> linear;
  for (int i = 0; i < spec.layers; ++i) linear.push_back((i + 1) % interval.value_or(kInterval) != 0);
  set_layers(linear, spec);
  return {};
}

Status read_gguf_delta_experts(const GgufKeys& keys, ModelSpec& spec) {
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, spec));
  set_gguf_router_defaults(keys, {.normalise = true}, spec);
  spec.experts.shared_gate = spec.experts.shared_ffn > 0;
  return {};
}

void name_hf_delta(const ModelSpec& spec, TensorMap& map) {
  name_qwen_shared_expert(spec, map);
  name_gated_query(spec, "self_attn.q_proj", map);
  map.name("ssm_conv1d", "linear_attn.conv1d")
      .name("ssm_a.weight", "linear_attn.A_log")
      .name("ssm_dt.bias", "linear_attn.dt_bias")
      .name("ssm_norm", "linear_attn.norm")
      .name("ssm_out", "linear_attn.out_proj");
}

void name_gguf_delta(const ModelSpec& spec, TensorMap& map) {
  name_gated_query(spec, "attn_q", map);
  map.name("ffn_norm", "post_attention_norm")
      .name("ssm_a.weight", "ssm_a")
      .fused({.file = "attn_qkv", .parts = {"ssm_q", "ssm_k", "ssm_v"}})
      .name("ssm_z", "attn_gate");
}

}  // namespace weir::load
