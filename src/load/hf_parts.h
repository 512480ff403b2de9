// What families read from a config.json in the same way: sizes, rotations, windows, experts, latent attention.
//
// Meanings are those of the transformers library (5.x), which also reads the older spellings: rope_scaling + rope_theta
// beside rope_parameters, "type" beside "rope_type". Its defaults differ between families: they are parameters here.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "load/hf_wrappers.h"
#include "load/json_fields.h"
#include "load/model_spec.h"
#include "load/spec_rules.h"
#include "load/tensor_map.h"

namespace weir::load {

// What transformers assumes where a configuration is silent.
struct HfDefaults {
  int head_dim = 0;                           // 0: hidden_size / num_attention_heads
  std::int64_t context = 0;                   // 0: must be stated
  double theta = 10000.0;                     // of RoPE
  double rotated = 1.0;                       // part of a head that RoPE turns
  const char* ffn_key = "intermediate_size";  // of dense layers
  const char* eps_key = "rms_norm_eps";
  double eps = 1e-6;
  bool tied = false;
  Activation activation = Activation::kSilu;
  bool gelu_is_tanh = false;  // "gelu" means its approximation by tanh
  RopeSpec::Pairing pairing = RopeSpec::Pairing::kHalves;
};

// Sizes, activation, norm epsilon, tied head, attention scale, spec.ropes[0], and `layers` layers of full attention.
Status read_hf_decoder(const JsonFields& config, const HfDefaults& defaults, ModelSpec& spec);

// One rotation of `width` elements times the part that is rotated: `parameters` (nullptr: none given) over the
// defaults.
Result<RopeSpec> read_hf_rope(const JsonFields* parameters, const JsonFields& config, const ModelSpec& spec, int width,
                              const HfDefaults& defaults);
// "rope_parameters" or "rope_scaling", or those of one kind of layers ("full_attention") where they are told apart.
Result<std::optional<JsonFields>> hf_rope_parameters(const JsonFields& config, const char* kind);

// kRequired where the flag is true.
Result<Presence> read_hf_bias(const JsonFields& config, const char* key, bool otherwise = false);
// "attention_bias": of all four projections.
Status read_hf_attention_bias(const JsonFields& config, Biases& biases);

// "sliding_window": null says none; `otherwise` where the key is absent.
Result<int> read_hf_window(const JsonFields& config, int otherwise);
// Which layers are of the type `type` by "layer_types", whose other entries must be full_attention; by `rule` where
// that is absent.
Result<std::vector<bool>> read_hf_layer_types(const JsonFields& config, int layers, std::string_view type,
                                              const std::function<bool(int layer)>& rule);
void set_windows(const std::vector<bool>& local, int window, ModelSpec& spec);
// Qwen's windows, which "use_sliding_window" switches on, in the layers that `rule` names by "max_window_layers".
Status read_qwen_windows(const JsonFields& config, bool (*rule)(int layer, std::int64_t max_window_layers),
                         ModelSpec& spec);

// Experts: their number, how many a token uses, and their size under the given key.
Status read_hf_experts(const JsonFields& config, const char* ffn_key, ModelSpec& spec);
// DeepSeek's routers, groups and shared experts, and its dense first layers.
Status read_hf_grouped_experts(const JsonFields& config, ModelSpec& spec);
// The same with V3's router: sigmoid with a correction, weights that add up to the scale.
Status read_hf_corrected_experts(const JsonFields& config, ModelSpec& spec);
// Qwen's dense layers among sparse ones.
Status read_hf_sparse_layers(const JsonFields& config, ModelSpec& spec);

// Qwen's expert that all tokens share, which has a gate.
Status read_hf_gated_expert(const JsonFields& config, ModelSpec& spec);
void name_qwen_shared_expert(const ModelSpec& spec, TensorMap& map);

// Gate and up in one matrix.
void name_hf_gate_up(TensorMap& map);

// Llama's names and what other families call in the same way.
TensorMap hf_tensor_map(const HfPrefix& prefix);

// Experts that are one tensor per layer instead of one each, gate above up (Qwen 3.5), perhaps turned (Qwen3-VL): told
// by the shapes in the first sparse layer. Families whose stacks are laid out otherwise have names of their own.
using HfShapeOf = std::function<std::span<const std::int64_t>(const std::string& name)>;  // empty: no such tensor
void name_stacked_experts(const ModelSpec& spec, const HfPrefix& prefix, const HfShapeOf& shape_of, TensorMap& map);

}  // namespace weir::load
