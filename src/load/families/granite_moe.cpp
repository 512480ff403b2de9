// Granite 3 MoE, with or without an expert that all tokens share.
#include "load/granite_parts.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"GraniteMoeForCausalLM", "granitemoe"},
                                        {"GraniteMoeSharedForCausalLM", "granitemoeshared"}};
constexpr std::string_view kGguf[] = {"granitemoe"};
constexpr int kSharedFfn = 1024;

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_hf_granite(config, model));
  WEIR_RETURN_IF_ERROR(read_hf_experts(config, "intermediate_size", spec));
  spec.experts.router.scores = RouterSpec::Scores::kSoftmaxOfChosen;
  spec.experts.router.normalise = false;
  WEIR_TRY(const auto type, config.string("model_type"));
  if (type.value_or("") != "granitemoeshared") return {};
  WEIR_TRY(const auto shared, config.integer("shared_intermediate_size", {0, kFfnRange.high}));
  spec.experts.shared_ffn = static_cast<int>(shared.value_or(kSharedFfn));
  return {};
}

void name_hf_tensors(const ModelSpec& spec, TensorMap& map) {
  map.name("ffn_gate_inp", "block_sparse_moe.router.layer")
      .fused({.file = "block_sparse_moe.input_linear", .parts = {"ffn_gate.#", "ffn_up.#"}, .stacked = true})
      .stacked("ffn_down.#", "block_sparse_moe.output_linear");
  if (spec.experts.shared_ffn == 0) return;
  map.fused({.file = "shared_mlp.input_linear", .parts = {"ffn_gate_shexp", "ffn_up_shexp"}})
      .name("ffn_down_shexp", "shared_mlp.output_linear");
}

// A file's softmax over all experts with weights that add up to 1 is one over the chosen.
Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_granite(keys, model));
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, spec));
  spec.experts.router.scores = RouterSpec::Scores::kSoftmaxOfChosen;
  spec.experts.router.normalise = false;
  return {};
}

}  // namespace

extern const Family kGraniteMoeFamily = {.name = "granite_moe",
                                         .classes = kClasses,
                                         .read_config = read_config,
                                         .name_hf_tensors = name_hf_tensors,
                                         .gguf_architectures = kGguf,
                                         .read_gguf = read_gguf};

}  // namespace weir::load
