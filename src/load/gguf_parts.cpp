#include "load/gguf_parts.h"

#include <algorithm>
#include <cmath>

#include "load/limits.h"

namespace weir::load {
namespace {

constexpr double kDefaultTheta = 10000.0;
constexpr Range kExpertRange = {0, 4096};

Status read_sizes(const GgufKeys& keys, ModelSpec& spec) {
  WEIR_TRY(spec.layers, keys.required("block_count", kLayerRange));
  // Layers that predict further tokens come last and are not run.
  WEIR_TRY(const auto next, keys.integer("nextn_predict_layers", {0, spec.layers - 1}));
  spec.layers -= static_cast<int>(next.value_or(0));
  WEIR_TRY(spec.hidden, keys.required("embedding_length", kHiddenRange));
  WEIR_TRY(spec.heads, keys.required("attention.head_count", kHeadRange));
  // Files of models whose every layer is sparse may say only how large an expert is.
  WEIR_TRY(const auto expert_ffn, keys.integer("expert_feed_forward_length", kFfnRange));
  const bool only_experts = expert_ffn && keys.find("feed_forward_length") == nullptr;
  WEIR_TRY(spec.ffn, keys.required(only_experts ? "expert_feed_forward_length" : "feed_forward_length", kFfnRange));
  WEIR_TRY(spec.context_length, keys.required("context_length", kContextRange));
  WEIR_TRY(const auto kv_heads, keys.integer("attention.head_count_kv", kHeadRange));
  spec.kv_heads = static_cast<int>(kv_heads.value_or(spec.heads));
  WEIR_TRY(const auto head_dim, keys.integer("attention.key_length", kHeadDimRange));
  if (!head_dim && (spec.hidden % spec.heads != 0 || spec.hidden / spec.heads > kHeadDimRange.high)) {
    return fail(ErrorCode::kCorruptFile, "{}: embedding_length {} cannot be split into {} heads of up to {}",
                keys.file(), spec.hidden, spec.heads, kHeadDimRange.high);
  }
  spec.head_dim = static_cast<int>(head_dim ? *head_dim : spec.hidden / spec.heads);
  WEIR_TRY(const auto latent, keys.integer("attention.kv_lora_rank", kHiddenRange));
  WEIR_TRY(const auto value_dim, keys.integer("attention.value_length", kHeadDimRange));
  if (!latent && value_dim.value_or(spec.head_dim) != spec.head_dim) {
    return fail(ErrorCode::kUnsupported, "{}: key_length {} and value_length {} differ, which is not supported",
                keys.file(), spec.head_dim, *value_dim);
  }
  spec.layer.assign(static_cast<std::size_t>(spec.layers), {});
  return {};
}

// The number of tokens that the file lists, or vocab_size in a file without a vocabulary.
Result<int> read_vocab(const GgufKeys& keys) {
  WEIR_TRY(const auto stated, keys.integer("vocab_size", kVocabRange));
  const auto found = keys.gguf().metadata().find("tokenizer.ggml.tokens");
  if (found == keys.gguf().metadata().end()) {
    if (!stated)
      return fail(ErrorCode::kCorruptFile, "{}: neither \"tokenizer.ggml.tokens\" nor \"{}\" is there", keys.file(),
                  keys.full("vocab_size"));
    return static_cast<int>(*stated);
  }
  const auto* tokens = std::get_if<std::vector<std::string>>(&found->second);
  if (tokens == nullptr || tokens->empty() || tokens->size() > static_cast<std::size_t>(kVocabRange.high)) {
    return fail_at("tokenizer.ggml.tokens", ErrorCode::kCorruptFile,
                   "{}: \"tokenizer.ggml.tokens\" is {}; 1 to {} strings expected", keys.file(),
                   describe(found->second), kVocabRange.high);
  }
  return static_cast<int>(tokens->size());
}

Status read_yarn(const GgufKeys& keys, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::kYarn;
  WEIR_TRY(rope.beta_fast, keys.number_or("rope.scaling.yarn_beta_fast", rope.beta_fast));
  WEIR_TRY(rope.beta_slow, keys.number_or("rope.scaling.yarn_beta_slow", rope.beta_slow));
  WEIR_TRY(const double mix, keys.number_or("rope.scaling.yarn_ext_factor", 1.0));
  if (mix != 1.0) {
    return fail(ErrorCode::kUnsupported, "{}: \"{}\" is {}; only 1 is supported", keys.file(),
                keys.full("rope.scaling.yarn_ext_factor"), mix);
  }
  // yarn_attn_factor is the whole multiplier, as in config.json; attn_factor multiplies YaRN's own.
  WEIR_TRY(const double log_multiplier, keys.number_or("rope.scaling.yarn_log_multiplier", 0.0));
  WEIR_TRY(const double extra, keys.number_or("rope.scaling.attn_factor", 1.0));
  const double own = log_multiplier == 0.0 ? yarn_magnitude(rope.factor)
                                           : yarn_magnitude(rope.factor) / yarn_magnitude(rope.factor, log_multiplier);
  WEIR_TRY(rope.attention_factor, keys.number_or("rope.scaling.yarn_attn_factor", own * extra));
  return {};
}

// LongRoPE comes as two tensors of divisors and a multiplier.
Status read_long(const GgufKeys& keys, RopeSpec& rope) {
  const auto pairs = static_cast<std::size_t>(rope.dims / 2);
  rope.scaling = RopeSpec::Scaling::kLong;
  WEIR_TRY(rope.frequency_divisors, keys.vector_tensor("rope_factors_short.weight", pairs));
  WEIR_TRY(rope.long_divisors, keys.vector_tensor("rope_factors_long.weight", pairs));
  WEIR_TRY(rope.attention_factor, keys.number_or("rope.scaling.attn_factor", 1.0));
  rope.factor = 1.0;
  return {};
}

Result<RopeSpec> read_rope(const GgufKeys& keys, RopeSpec::Pairing pairing, const ModelSpec& spec) {
  RopeSpec rope;
  rope.pairing = pairing;
  WEIR_TRY(const auto dims, keys.integer("rope.dimension_count", kHeadDimRange));
  rope.dims = static_cast<int>(dims.value_or(spec.head_dim));
  WEIR_TRY(rope.theta, keys.number_or("rope.freq_base", kDefaultTheta));
  WEIR_TRY(auto factor, keys.number("rope.scaling.factor"));
  if (!factor) {
    WEIR_TRY(factor, keys.number("rope.scale_linear"));
  }
  // 0 stands for "none" in old files.
  rope.factor = factor.value_or(0.0) == 0.0 ? 1.0 : *factor;
  WEIR_TRY(const auto original, keys.integer("rope.scaling.original_context_length", kContextRange));
  rope.original_context = original.value_or(spec.context_length);

  const std::string type_key = keys.full("rope.scaling.type");
  const std::string* type = keys.gguf().get_string(type_key);
  if (type == nullptr && keys.find("rope.scaling.type") != nullptr) {
    return fail_at(type_key, ErrorCode::kCorruptFile, "{}: \"{}\" is no string", keys.file(), type_key);
  }
  if (keys.has_tensor("rope_factors_long.weight")) {
    WEIR_RETURN_IF_ERROR(read_long(keys, rope));
  } else if (type == nullptr || *type == "linear") {
    if (rope.factor != 1.0) rope.scaling = RopeSpec::Scaling::kLinear;
  } else if (*type == "yarn") {
    WEIR_RETURN_IF_ERROR(read_yarn(keys, rope));
  } else if (*type == "none") {
    rope.factor = 1.0;
  } else if (*type == "longrope") {
    return fail_at(type_key, ErrorCode::kCorruptFile,
                   "{}: RoPE scaling \"longrope\" needs the tensors rope_factors_short.weight and "
                   "rope_factors_long.weight",
                   keys.file());
  } else {
    return fail_at(type_key, ErrorCode::kUnsupported,
                   "{}: RoPE scaling \"{}\" is not supported; none, linear, longrope and yarn are", keys.file(), *type);
  }
  // Llama 3's scaling comes as a tensor of divisors instead of as keys.
  if (rope.scaling != RopeSpec::Scaling::kLong) {
    WEIR_TRY(rope.frequency_divisors, keys.vector_tensor("rope_freqs.weight", static_cast<std::size_t>(rope.dims / 2)));
  }
  return rope;
}

}  // namespace

Status read_gguf_decoder(const GgufKeys& keys, const GgufDefaults& defaults, ModelSpec& spec) {
  WEIR_RETURN_IF_ERROR(read_sizes(keys, spec));
  WEIR_TRY(spec.vocab, read_vocab(keys));
  WEIR_TRY(const auto eps, keys.number(defaults.eps_key));
  if (!eps) {
    return fail(ErrorCode::kCorruptFile, "{}: metadata key \"{}\" is missing", keys.file(),
                keys.full(defaults.eps_key));
  }
  spec.rms_eps = static_cast<float>(*eps);
  WEIR_TRY(auto rope, read_rope(keys, defaults.pairing, spec));
  spec.context_length = stretched_context(rope, spec.context_length);
  spec.ropes.assign(1, std::move(rope));
  spec.tied_embeddings = !keys.has_tensor("output.weight");
  WEIR_TRY(spec.attention_scale,
           keys.number_or("attention.scale", 1.0 / std::sqrt(static_cast<double>(spec.head_dim))));
  WEIR_TRY(spec.final_softcap, keys.number_or("final_logit_softcapping", 0.0));
  WEIR_TRY(spec.attention_softcap, keys.number_or("attn_logit_softcapping", 0.0));
  return {};
}

Result<int> read_gguf_window(const GgufKeys& keys) {
  WEIR_TRY(const auto window, keys.integer("attention.sliding_window", kWindowRange));
  return static_cast<int>(window.value_or(0));
}

Result<std::vector<bool>> read_gguf_local_layers(const GgufKeys& keys, int layers, std::int64_t otherwise) {
  constexpr std::string_view key = "attention.sliding_window_pattern";
  std::vector<bool> local(static_cast<std::size_t>(layers));
  WEIR_TRY(const int window, read_gguf_window(keys));
  if (window == 0) return local;
  const GgufValue* value = keys.find(key);
  const auto* flags = value == nullptr ? nullptr : std::get_if<std::vector<bool>>(value);
  const auto* numbers = value == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(value);
  if (flags != nullptr || numbers != nullptr) {
    const std::size_t size = flags != nullptr ? flags->size() : numbers->size();
    if (size != local.size()) {
      return fail(ErrorCode::kCorruptFile, "{}: \"{}\" has {} entries for {} layers", keys.file(), keys.full(key), size,
                  layers);
    }
    for (std::size_t i = 0; i < size; ++i) local[i] = flags != nullptr ? bool{(*flags)[i]} : (*numbers)[i] != 0;
    return local;
  }
  WEIR_TRY(const auto pattern, keys.integer(key, {0, kLayerRange.high}));
  const std::int64_t period = pattern.value_or(otherwise);
  for (std::size_t i = 0; i < local.size(); ++i) {
    local[i] = period == 0 || static_cast<std::int64_t>(i) % period < period - 1;
  }
  return local;
}

Status read_gguf_experts(const GgufKeys& keys, ModelSpec& spec) {
  WEIR_TRY(const auto count, keys.integer("expert_count", kExpertRange));
  if (count.value_or(0) == 0) return {};
  ExpertsSpec& experts = spec.experts;
  RouterSpec& router = experts.router;
  experts.count = static_cast<int>(*count);
  WEIR_TRY(const auto used, keys.required("expert_used_count", {1, kExpertRange.high}));
  experts.used = static_cast<int>(used);
  WEIR_TRY(const auto ffn, keys.integer("expert_feed_forward_length", kFfnRange));
  experts.ffn = static_cast<int>(ffn.value_or(spec.ffn));
  WEIR_TRY(const auto shared, keys.integer("expert_shared_count", {0, 64}));
  WEIR_TRY(const auto shared_ffn, keys.integer("expert_shared_feed_forward_length", {0, kFfnRange.high}));
  experts.shared_ffn = static_cast<int>(shared_ffn.value_or(shared.value_or(0) * experts.ffn));
  WEIR_TRY(const double scale, keys.number_or("expert_weights_scale", 0.0));
  router.scale = scale == 0.0 ? 1.0f : static_cast<float>(scale);  // 0 stands for "none"
  WEIR_TRY(const auto groups, keys.integer("expert_group_count", kExpertRange));
  WEIR_TRY(const auto groups_used, keys.integer("expert_group_used_count", kExpertRange));
  router.groups = std::max(1, static_cast<int>(groups.value_or(1)));
  router.groups_used = std::max(1, static_cast<int>(groups_used.value_or(1)));
  WEIR_TRY(const auto dense, keys.integer("leading_dense_block_count", {0, kLayerRange.high}));
  for (std::size_t i = 0; i < spec.layer.size(); ++i)
    spec.layer[i].sparse = static_cast<std::int64_t>(i) >= dense.value_or(0);

  WEIR_TRY(router.normalise, keys.boolean_or("expert_weights_norm", false));
  WEIR_TRY(const auto gating, keys.integer("expert_gating_func", {0, 16}));
  constexpr std::int64_t kSoftmax = 1, kSigmoid = 2, kSoftmaxOfChosen = 3;
  switch (gating.value_or(0)) {
    case 0:
    case kSoftmax:
      router.scores = RouterSpec::Scores::kSoftmax;
      break;
    case kSigmoid:
      router.scores = RouterSpec::Scores::kSigmoid;
      break;
    case kSoftmaxOfChosen:
      router.scores = RouterSpec::Scores::kSoftmaxOfChosen;
      break;
    default:
      return fail_at(keys.full("expert_gating_func"), ErrorCode::kUnsupported,
                     "{}: \"{}\" is {}; 1 (softmax), 2 (sigmoid) and 3 (softmax of the chosen) are supported",
                     keys.file(), keys.full("expert_gating_func"), *gating);
  }
  return {};
}

void set_gguf_router_defaults(const GgufKeys& keys, const GgufRouter& defaults, ModelSpec& spec) {
  const GgufValue* gating = keys.find("expert_gating_func");
  const auto* number = gating == nullptr ? nullptr : std::get_if<std::int64_t>(gating);
  if (number == nullptr || *number == 0) spec.experts.router.scores = defaults.scores;
  if (keys.find("expert_weights_norm") == nullptr) spec.experts.router.normalise = defaults.normalise;
}

Status read_gguf_corrected_experts(const GgufKeys& keys, bool normalise, ModelSpec& spec) {
  WEIR_RETURN_IF_ERROR(read_gguf_experts(keys, spec));
  set_gguf_router_defaults(keys, {.normalise = normalise, .scores = RouterSpec::Scores::kSigmoid}, spec);
  spec.experts.router.correction = true;
  spec.experts.router.sum_floor = 1e-20f;
  return {};
}

void name_gguf_post_attention_norm(const ModelSpec&, const GgufLayout&, TensorMap& map) {
  map.name("ffn_norm", "post_attention_norm");
}

void name_gguf_gate_up(const GgufLayout& file, TensorMap& map) {
  if (!file.older("blk.0.ffn_gate.weight")) map.fused({.file = "ffn_up", .parts = {"ffn_gate", "ffn_up"}});
}

TensorMap gguf_tensor_map(const ModelSpec& spec, const GgufLayout& file) {
  TensorMap map("blk.");
  const auto sparse = std::ranges::find(spec.layer, true, &LayerSpec::sparse);
  if (sparse == spec.layer.end()) return map;
  const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", sparse - spec.layer.begin(), rest); };
  if (file.older(name("ffn_gate.0.weight"))) return map;  // files of early converters: an expert, a tensor
  for (const char* one : {"ffn_gate", "ffn_up", "ffn_down"})
    map.stacked(fmt::format("{}.#", one), fmt::format("{}_exps", one));
  if (file.older(name("ffn_gate_up_exps.weight")))
    map.fused({.file = "ffn_gate_up_exps", .parts = {"ffn_gate.#", "ffn_up.#"}, .stacked = true});
  return map;
}

}  // namespace weir::load
