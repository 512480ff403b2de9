// gpt-oss: a window in every other layer, attention sinks, biases everywhere, experts with a clamped SwiGLU whose
// weights are a softmax over the chosen ones. The folders hold an expert's gate and up rows by turns, and all matrices
// of experts [inputs, outputs].
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"GptOssForCausalLM", "gpt_oss"}};
constexpr std::string_view kGguf[] = {"gpt-oss"};
constexpr int kHeadDim = 64, kWindow = 128;
constexpr std::int64_t kContext = 131072, kPattern = 2;
constexpr double kTheta = 150'000.0, kEps = 1e-5;

void set_parts(ParsedModel& model) {
  ModelSpec& spec = model.spec;
  spec.sinks = true;
  spec.activation = Activation::kClampedSwiglu;
  spec.experts.biases = true;
  spec.experts.router.bias = true;
  spec.experts.router.scores = RouterSpec::Scores::kSoftmaxOfChosen;
  model.biases.qkv = model.biases.attention_output = Presence::kRequired;
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(
      read_hf_decoder(config, {.head_dim = kHeadDim, .context = kContext, .theta = kTheta, .eps = kEps}, spec));
  WEIR_RETURN_IF_ERROR(read_hf_experts(config, "intermediate_size", spec));
  WEIR_TRY(const auto alpha, config.number("swiglu_alpha"));
  WEIR_TRY(const auto limit, config.number("swiglu_limit"));
  if (alpha) spec.swiglu_alpha = static_cast<float>(*alpha);
  if (limit) spec.swiglu_limit = static_cast<float>(*limit);
  set_parts(model);
  WEIR_TRY(const int window, read_hf_window(config, kWindow));
  WEIR_TRY(const auto local, read_hf_layer_types(config, spec.layers, "sliding_attention",
                                                 [](int layer) { return (layer + 1) % kPattern != 0; }));
  set_windows(local, window, spec);
  return {};
}

void name_hf_tensors(const ModelSpec& spec, TensorMap& map) {
  map.name("attn_sinks.weight", "self_attn.sinks")
      .name("ffn_gate_inp", "mlp.router")
      .fused({.file = "mlp.experts.gate_up_proj",
              .parts = {"ffn_gate.#.weight", "ffn_up.#.weight"},
              .groups = spec.experts.ffn,
              .stacked = true,
              .slice_transposed = true})
      .fused({.file = "mlp.experts.gate_up_proj_bias",
              .parts = {"ffn_gate.#.bias", "ffn_up.#.bias"},
              .groups = spec.experts.ffn,
              .stacked = true})
      .fused(
          {.file = "mlp.experts.down_proj", .parts = {"ffn_down.#.weight"}, .stacked = true, .slice_transposed = true})
      .stacked("ffn_down.#.bias", "mlp.experts.down_proj_bias");
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, spec));
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, spec));
  set_parts(model);
  spec.ropes[0].yarn_truncate = false;  // as the model was trained; no key says so
  WEIR_TRY(const int window, read_gguf_window(keys));
  WEIR_TRY(const auto local, read_gguf_local_layers(keys, spec.layers, kPattern));
  set_windows(local, window, spec);
  return {};
}

void name_gguf_tensors(const ModelSpec&, const GgufLayout& file, TensorMap& map) {
  if (file.current("blk.0.post_attention_norm.weight")) map.name("ffn_norm", "post_attention_norm");
}

}  // namespace

extern const Family kGptOssFamily = {.name = "gpt_oss",
                                     .classes = kClasses,
                                     .read_config = read_config,
                                     .name_hf_tensors = name_hf_tensors,
                                     .gguf_architectures = kGguf,
                                     .read_gguf = read_gguf,
                                     .name_gguf_tensors = name_gguf_tensors};

}  // namespace weir::load
