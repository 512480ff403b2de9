#include "load/hf_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "load/limits.h"

namespace weir::load {
namespace {

using nlohmann::json;

constexpr Range kExpertRange = {1, 4096};

Status read_sizes(const JsonFields& config, const HfDefaults& defaults, ModelSpec& spec) {
  WEIR_TRY(spec.layers, config.required("num_hidden_layers", kLayerRange));
  WEIR_TRY(spec.hidden, config.required("hidden_size", kHiddenRange));
  WEIR_TRY(spec.heads, config.required("num_attention_heads", kHeadRange));
  WEIR_TRY(spec.ffn, config.required(defaults.ffn_key, kFfnRange));
  WEIR_TRY(spec.vocab, config.required("vocab_size", kVocabRange));
  WEIR_TRY(const auto context, config.integer("max_position_embeddings", kContextRange));
  if (!context && defaults.context == 0) {
    return fail_at("max_position_embeddings", ErrorCode::kCorruptFile, "{}: \"max_position_embeddings\" is missing",
                   config.file());
  }
  spec.context_length = context.value_or(defaults.context);
  WEIR_TRY(const auto kv_heads, config.integer("num_key_value_heads", kHeadRange));
  spec.kv_heads = static_cast<int>(kv_heads.value_or(spec.heads));
  WEIR_TRY(const auto head_dim, config.integer("head_dim", kHeadDimRange));
  if (head_dim || defaults.head_dim > 0) {
    spec.head_dim = static_cast<int>(head_dim.value_or(defaults.head_dim));
  } else {
    spec.head_dim = spec.hidden / spec.heads;
    if (spec.hidden % spec.heads != 0 || spec.head_dim > kHeadDimRange.high) {
      return fail(ErrorCode::kCorruptFile, "{}: hidden_size {} cannot be split into {} heads of up to {}",
                  config.file(), spec.hidden, spec.heads, kHeadDimRange.high);
    }
  }
  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  spec.layer.assign(static_cast<std::size_t>(spec.layers), {});
  return {};
}

Status read_activation(const JsonFields& config, const HfDefaults& defaults, ModelSpec& spec) {
  const char* key = config.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  WEIR_TRY(const auto name, config.string(key));
  spec.activation = defaults.activation;
  if (!name) return {};
  if (*name == "silu" || *name == "swish") {
    spec.activation = Activation::kSilu;
  } else if (*name == "gelu_pytorch_tanh" || *name == "gelu_new" || (*name == "gelu" && defaults.gelu_is_tanh)) {
    spec.activation = Activation::kGeluTanh;
  } else {
    return fail_at(key, ErrorCode::kUnsupported,
                   "{}: activation \"{}\" is not supported; silu and gelu_pytorch_tanh are", config.file(),
                   name->substr(0, 60));
  }
  return {};
}

}  // namespace

Status read_hf_decoder(const JsonFields& config, const HfDefaults& defaults, ModelSpec& spec) {
  WEIR_RETURN_IF_ERROR(read_sizes(config, defaults, spec));
  WEIR_RETURN_IF_ERROR(read_activation(config, defaults, spec));
  WEIR_TRY(const auto eps, config.number(defaults.eps_key));
  spec.rms_eps = static_cast<float>(eps.value_or(defaults.eps));
  WEIR_TRY(const auto tied, config.boolean("tie_word_embeddings"));
  spec.tied_embeddings = tied.value_or(defaults.tied);
  WEIR_TRY(const auto parameters, hf_rope_parameters(config, "full_attention"));
  WEIR_TRY(auto rope, read_hf_rope(parameters ? &*parameters : nullptr, config, spec, spec.head_dim, defaults));
  spec.context_length = stretched_context(rope, spec.context_length);
  spec.ropes.assign(1, std::move(rope));
  return {};
}

Result<Presence> read_hf_bias(const JsonFields& config, const char* key, bool otherwise) {
  WEIR_TRY(const auto flag, config.boolean(key));
  return flag.value_or(otherwise) ? Presence::kRequired : Presence::kAbsent;
}

Status read_hf_attention_bias(const JsonFields& config, Biases& biases) {
  WEIR_TRY(biases.qkv, read_hf_bias(config, "attention_bias"));
  biases.attention_output = biases.qkv;
  return {};
}

Result<int> read_hf_window(const JsonFields& config, int otherwise) {
  WEIR_TRY(const auto window, config.integer("sliding_window", kWindowRange));
  if (window) return static_cast<int>(*window);
  return config.names("sliding_window") ? 0 : otherwise;
}

Result<std::vector<bool>> read_hf_layer_types(const JsonFields& config, int layers, std::string_view type,
                                              const std::function<bool(int layer)>& rule) {
  std::vector<bool> chosen(static_cast<std::size_t>(layers));
  const json* types = config.member("layer_types");
  if (types == nullptr) {
    for (int i = 0; i < layers; ++i) chosen[static_cast<std::size_t>(i)] = rule(i);
    return chosen;
  }
  if (!types->is_array() || types->size() != chosen.size()) {
    return fail_at("layer_types", ErrorCode::kCorruptFile, "{}: \"layer_types\" has {} entries for {} layers",
                   config.file(), types->size(), layers);
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const json& found = (*types)[i];
    if (found != std::string(type) && found != "full_attention") {
      return fail_at("layer_types", ErrorCode::kUnsupported, "{}: layer {} has another type than {} and full_attention",
                     config.file(), i, type);
    }
    chosen[i] = found == std::string(type);
  }
  return chosen;
}

void set_windows(const std::vector<bool>& local, int window, ModelSpec& spec) {
  for (std::size_t i = 0; i < local.size(); ++i) spec.layer[i].window = local[i] ? window : 0;
}

Status read_qwen_windows(const JsonFields& config, bool (*rule)(int layer, std::int64_t max_window_layers),
                         ModelSpec& spec) {
  constexpr int kWindow = 4096;
  constexpr std::int64_t kMaxWindowLayers = 28;
  WEIR_TRY(const auto use, config.boolean("use_sliding_window"));
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  WEIR_TRY(const auto most, config.integer("max_window_layers", {0, 1 << 30}));
  WEIR_TRY(const auto local, read_hf_layer_types(config, spec.layers, "sliding_attention", [&](int layer) {
             return rule(layer, most.value_or(kMaxWindowLayers));
           }));
  set_windows(local, use.value_or(false) ? window : 0, spec);
  return {};
}

Status read_hf_experts(const JsonFields& config, const char* ffn_key, ModelSpec& spec) {
  std::optional<std::int64_t> count;
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    WEIR_TRY(const auto found, config.integer(key, kExpertRange));
    if (found) count = found;
  }
  if (!count) {
    return fail_at("num_experts", ErrorCode::kCorruptFile,
                   "{}: none of \"num_local_experts\", \"num_experts\", \"n_routed_experts\" is there", config.file());
  }
  ExpertsSpec& experts = spec.experts;
  experts.count = static_cast<int>(*count);
  WEIR_TRY(const auto used, config.required("num_experts_per_tok", kExpertRange));
  experts.used = static_cast<int>(used);
  WEIR_TRY(const auto ffn, config.required(ffn_key, kFfnRange));
  experts.ffn = static_cast<int>(ffn);
  WEIR_TRY(const auto normalise, config.boolean("norm_topk_prob"));
  experts.router.normalise = normalise.value_or(false);
  for (LayerSpec& layer : spec.layer) layer.sparse = true;
  return {};
}

Status read_hf_grouped_experts(const JsonFields& config, ModelSpec& spec) {
  WEIR_RETURN_IF_ERROR(read_hf_experts(config, "moe_intermediate_size", spec));
  ExpertsSpec& experts = spec.experts;
  RouterSpec& router = experts.router;
  WEIR_TRY(const auto scale, config.number("routed_scaling_factor"));
  router.scale = static_cast<float>(scale.value_or(1.0));
  WEIR_TRY(const auto groups, config.integer("n_group", kExpertRange));
  WEIR_TRY(const auto groups_used, config.integer("topk_group", kExpertRange));
  router.groups = static_cast<int>(groups.value_or(1));
  router.groups_used = static_cast<int>(groups_used.value_or(1));
  WEIR_TRY(const auto shared, config.integer("n_shared_experts", {0, 64}));
  experts.shared_ffn = static_cast<int>(shared.value_or(1)) * experts.ffn;

  const json* types = config.member("mlp_layer_types");
  if (types != nullptr && (!types->is_array() || types->size() != spec.layer.size())) {
    return fail_at("mlp_layer_types", ErrorCode::kCorruptFile, "{}: \"mlp_layer_types\" has {} entries for {} layers",
                   config.file(), types->size(), spec.layers);
  }
  WEIR_TRY(const auto dense, config.integer("first_k_dense_replace", {0, kLayerRange.high}));
  for (std::size_t i = 0; i < spec.layer.size(); ++i) {
    spec.layer[i].sparse =
        types != nullptr ? (*types)[i] == "sparse" : static_cast<std::int64_t>(i) >= dense.value_or(0);
  }
  return {};
}

Status read_hf_corrected_experts(const JsonFields& config, ModelSpec& spec) {
  WEIR_RETURN_IF_ERROR(read_hf_grouped_experts(config, spec));
  RouterSpec& router = spec.experts.router;
  router.scores = RouterSpec::Scores::kSigmoid;
  router.correction = true;
  router.sum_floor = 1e-20f;
  WEIR_TRY(const auto normalise, config.boolean("norm_topk_prob"));
  router.normalise = normalise.value_or(true);
  return {};
}

Status read_hf_sparse_layers(const JsonFields& config, ModelSpec& spec) {
  WEIR_TRY(const auto step, config.integer("decoder_sparse_step", kLayerRange));
  for (std::size_t i = 0; i < spec.layer.size(); ++i)
    spec.layer[i].sparse = (static_cast<std::int64_t>(i) + 1) % step.value_or(1) == 0;
  const json* dense = config.member("mlp_only_layers");
  if (dense == nullptr) return {};
  if (!dense->is_array()) {
    return fail_at("mlp_only_layers", ErrorCode::kCorruptFile, "{}: \"mlp_only_layers\" is no list", config.file());
  }
  for (const json& entry : *dense) {
    if (!entry.is_number_integer() || entry < 0 || entry >= spec.layers) {
      return fail_at("mlp_only_layers", ErrorCode::kCorruptFile,
                     "{}: \"mlp_only_layers\" names something else than layers from 0 to {}", config.file(),
                     spec.layers - 1);
    }
    spec.layer[entry.get<std::size_t>()].sparse = false;
  }
  return {};
}

Status read_hf_gated_expert(const JsonFields& config, ModelSpec& spec) {
  WEIR_TRY(spec.experts.shared_ffn, config.required("shared_expert_intermediate_size", kFfnRange));
  spec.experts.shared_gate = true;
  return {};
}

void name_hf_gate_up(TensorMap& map) {
  map.fused({.file = "mlp.gate_up_proj", .parts = {"ffn_gate", "ffn_up"}});
}

void name_qwen_shared_expert(const ModelSpec&, TensorMap& map) {
  map.name("ffn_gate_shexp", "mlp.shared_expert.gate_proj")
      .name("ffn_up_shexp", "mlp.shared_expert.up_proj")
      .name("ffn_down_shexp", "mlp.shared_expert.down_proj")
      .name("ffn_gate_inp_shexp", "mlp.shared_expert_gate");
}

void name_stacked_experts(const ModelSpec& spec, const HfPrefix& prefix, const HfShapeOf& shape_of, TensorMap& map) {
  const auto sparse = std::ranges::find(spec.layer, true, &LayerSpec::sparse);
  if (sparse == spec.layer.end()) return;
  const std::string stem = fmt::format("{}layers.{}.mlp.experts.", prefix.layers, sparse - spec.layer.begin());
  const auto both = shape_of(stem + "gate_up_proj"), down = shape_of(stem + "down_proj");
  if (both.size() != 3 || down.size() != 3) return;
  // One of the two is not square in the sense that matters, whatever the sizes.
  const bool turned = both[1] == spec.hidden && down[1] == spec.experts.ffn;
  map.fused({.file = "mlp.experts.gate_up_proj",
             .parts = {"ffn_gate.#.weight", "ffn_up.#.weight"},
             .stacked = true,
             .slice_transposed = turned})
      .fused({.file = "mlp.experts.down_proj",
              .parts = {"ffn_down.#.weight"},
              .stacked = true,
              .slice_transposed = turned});
}

TensorMap hf_tensor_map(const HfPrefix& prefix) {
  TensorMap map(prefix.layers + "layers.");
  map.global("token_embd.weight", prefix.layers + "embed_tokens.weight")
      .global("output_norm.weight", prefix.layers + "norm.weight")
      .global("output.weight", prefix.head + "weight");
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"attn_norm", "input_layernorm"},
      {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},
      {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"},
      {"attn_output", "self_attn.o_proj"},
      {"post_attention_norm", "post_attention_layernorm"},
      {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"},
      {"post_ffw_norm", "post_feedforward_layernorm"},
      {"ffn_gate_inp", "mlp.gate"},
      {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
      {"ffn_gate.#", "mlp.experts.#.gate_proj"},
      {"ffn_up.#", "mlp.experts.#.up_proj"},
      {"ffn_down.#", "mlp.experts.#.down_proj"},
      {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
      {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
      {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
  };
  for (const auto& [canonical, file] : kNames) map.name(canonical, file);
  return map;
}

}  // namespace weir::load
