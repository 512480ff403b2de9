// ERNIE 4.5 with experts, chosen by softmax with a correction; dense layers at the beginning or in between.
#include "load/families/family.h"

namespace weir::load {
namespace {

constexpr Family::HfClass kClasses[] = {{"Ernie4_5_MoeForCausalLM", "ernie4_5_moe"}};
constexpr std::string_view kGguf[] = {"ernie4_5-moe"};
constexpr std::int64_t kContext = 131072, kSharedExperts = 2, kFirstSparse = 1;
constexpr double kTheta = 500000.0, kEps = 1e-5, kLeastSum = 1e-12;
constexpr Range kExpertRange = {1, 4096};

Status read_experts(const JsonFields& config, ModelSpec& spec) {
  ExpertsSpec& experts = spec.experts;
  WEIR_TRY(experts.count, config.required("moe_num_experts", kExpertRange));
  WEIR_TRY(experts.used, config.required("moe_k", kExpertRange));
  WEIR_TRY(experts.ffn, config.required("moe_intermediate_size", kFfnRange));
  WEIR_TRY(const auto shared, config.integer("moe_num_shared_experts", {0, 64}));
  experts.shared_ffn = static_cast<int>(shared.value_or(kSharedExperts)) * experts.ffn;
  experts.router.normalise = experts.router.correction = true;
  WEIR_TRY(const auto least, config.number("moe_norm_min"));
  experts.router.sum_floor = static_cast<float>(least.value_or(kLeastSum));
  WEIR_TRY(const auto first, config.integer("moe_layer_start_index", {0, kLayerRange.high}));
  WEIR_TRY(const auto last, config.integer("moe_layer_end_index", {-1, kLayerRange.high}));
  WEIR_TRY(const auto interval, config.integer("moe_layer_interval", kLayerRange));
  const std::int64_t end = last.value_or(-1) == -1 ? spec.layers : *last + 1;
  for (int i = 0; i < spec.layers; ++i) {
    spec.layer[static_cast<std::size_t>(i)].sparse =
        (i + 1) % interval.value_or(1) == 0 && i >= first.value_or(kFirstSparse) && i < end;
  }
  return {};
}

Status read_config(const JsonFields& config, ParsedModel& model) {
  WEIR_RETURN_IF_ERROR(read_hf_decoder(
      config,
      {.context = kContext, .theta = kTheta, .eps = kEps, .tied = true, .pairing = RopeSpec::Pairing::kAdjacent},
      model.spec));
  WEIR_TRY(const auto biases, config.boolean("use_bias"));
  if (biases.value_or(false)) {
    return fail_at("use_bias", ErrorCode::kUnsupported, "{}: \"use_bias\" is true, which is not supported with experts",
                   config.file());
  }
  return read_experts(config, model.spec);
}

void name_hf_tensors(const ModelSpec&, TensorMap& map) {
  map.name("exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias");
}

Status read_gguf(const GgufKeys& keys, ParsedModel& model) {
  ModelSpec& spec = model.spec;
  WEIR_RETURN_IF_ERROR(read_gguf_decoder(keys, {.pairing = RopeSpec::Pairing::kAdjacent}, spec));
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, spec));
  set_gguf_router_defaults(keys, {.normalise = true}, spec);
  WEIR_TRY(const auto interval, keys.integer("interleave_moe_layer_step", {0, kLayerRange.high}));
  for (std::size_t i = 0; i < spec.layer.size() && interval.value_or(0) > 1; ++i) {
    if ((static_cast<std::int64_t>(i) + 1) % *interval != 0) spec.layer[i].sparse = false;
  }
  spec.experts.router.correction = true;
  spec.experts.router.sum_floor = static_cast<float>(kLeastSum);
  return {};
}

}  // namespace

extern const Family kErnie45MoeFamily = {.name = "ernie4_5_moe",
                                         .classes = kClasses,
                                         .read_config = read_config,
                                         .name_hf_tensors = name_hf_tensors,
                                         .gguf_architectures = kGguf,
                                         .read_gguf = read_gguf};

}  // namespace weir::load
