// MiniMax M2: norms of the whole of q and k, part of a head rotated, experts chosen by sigmoid with a correction.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"MiniMaxM2ForCausalLM", "minimax_m2"}};
constexpr std::string_view kGguf[] = {"minimax-m2"};
constexpr int kHeadDim = 128;
constexpr std::int64_t kContext = 196608;
constexpr double kTheta = 5'000'000.0;

void set_router(ModelSpec& spec) {
  spec.qk_norm = QkNorm::kWidth;
  spec.experts.router.scores = RouterSpec::Scores::kSigmoid;
  spec.experts.router.normalise = true;
  spec.experts.router.correction = true;
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  HfDefaults defaults = {.head_dim = kHeadDim, .context = kContext, .theta = kTheta};
  // The released checkpoints state the rotated part in elements.
  WEIR_TRY(const auto rotated, config.integer("rotary_dim", kHeadDimRange));
  WEIR_TRY(const auto head_dim, config.integer("head_dim", kHeadDimRange));
  if (rotated) defaults.rotated = static_cast<double>(*rotated) / static_cast<double>(head_dim.value_or(kHeadDim));
  WEIR_RETURN_IF_ERROR(read_hf_decoder(config, defaults, spec));
  WEIR_RETURN_IF_ERROR(read_hf_experts(config, "intermediate_size", spec));
  set_router(spec);
  return {};
}

void name_hf_tensors(const ModelSpec&, TensorMap& map) {
  map.name("ffn_gate_inp", "block_sparse_moe.gate")
      .name("exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias")
      .name("ffn_gate.#", "block_sparse_moe.experts.#.w1")
      .name("ffn_down.#", "block_sparse_moe.experts.#.w2")
      .name("ffn_up.#", "block_sparse_moe.experts.#.w3");
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {}, model.spec));
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, model.spec));
  set_router(model.spec);
  return {};
}

}  // namespace

extern const Family kMiniMaxM2Family = {.name = "minimax_m2",
                                        .classes = kClasses,
                                        .read_config = read_config,
                                        .name_hf_tensors = name_hf_tensors,
                                        .gguf_architectures = kGguf,
                                        .read_gguf = read_gguf};

}  // namespace weir::load
