#include <cmath>
#include <nlohmann/json.hpp>

#include "load/hf_config.h"
#include "load/limits.h"

namespace weir::load {
namespace {

constexpr double kDefaultTheta = 10000.0, kGemmaGlobalTheta = 1'000'000.0;

Result<double> number_or(const JsonFields& fields, const char* key, double otherwise) {
  WEIR_TRY(const auto value, fields.number(key));
  return value.value_or(otherwise);
}

Status read_yarn(const JsonFields& parameters, bool has_factor, const ModelSpec& spec, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::kYarn;
  if (!has_factor) rope.factor = static_cast<double>(spec.context_length) / static_cast<double>(rope.original_context);
  WEIR_TRY(const double fast, number_or(parameters, "beta_fast", 0.0));
  WEIR_TRY(const double slow, number_or(parameters, "beta_slow", 0.0));
  if (fast != 0) rope.beta_fast = fast;  // 0 counts as absent
  if (slow != 0) rope.beta_slow = slow;
  WEIR_TRY(const auto truncate, parameters.boolean("truncate"));
  rope.yarn_truncate = truncate.value_or(true);
  WEIR_TRY(const double mscale, number_or(parameters, "mscale", 0.0));
  WEIR_TRY(const double mscale_all_dim, number_or(parameters, "mscale_all_dim", 0.0));
  const double own = mscale != 0 && mscale_all_dim != 0
                         ? yarn_magnitude(rope.factor, mscale) / yarn_magnitude(rope.factor, mscale_all_dim)
                         : yarn_magnitude(rope.factor);
  WEIR_TRY(rope.attention_factor, number_or(parameters, "attention_factor", own));
  return {};
}

Status read_scaling(const JsonFields& parameters, const JsonFields& config, const ModelSpec& spec, RopeSpec& rope) {
  WEIR_TRY(auto type, parameters.string("rope_type"));
  if (!type) {
    WEIR_TRY(type, parameters.string("type"));
  }
  const std::string kind = type.value_or("default");
  if (kind == "default") return {};
  if (kind != "linear" && kind != "llama3" && kind != "yarn") {
    return fail_at("rope_type", ErrorCode::kUnsupported,
                   "{}: RoPE scaling \"{}\" is not supported; default, linear, llama3 and yarn are", parameters.file(),
                   kind.substr(0, 60));
  }
  WEIR_TRY(const auto factor, parameters.number("factor"));
  if (!factor && kind != "yarn") {
    return fail_at("factor", ErrorCode::kCorruptFile, "{}: RoPE scaling \"{}\" needs a \"factor\"", parameters.file(),
                   kind);
  }
  rope.factor = factor.value_or(1.0);
  WEIR_TRY(auto original, parameters.integer("original_max_position_embeddings", kContextRange));
  WEIR_TRY(const auto outer, config.integer("original_max_position_embeddings", kContextRange));
  if (outer) original = outer;  // as transformers ranks them
  rope.original_context = original.value_or(spec.context_length);
  if (kind == "linear") {
    rope.scaling = RopeSpec::Scaling::kLinear;
  } else if (kind == "llama3") {
    rope.scaling = RopeSpec::Scaling::kLlama3;
    WEIR_TRY(rope.low_freq_factor, number_or(parameters, "low_freq_factor", rope.low_freq_factor));
    WEIR_TRY(rope.high_freq_factor, number_or(parameters, "high_freq_factor", rope.high_freq_factor));
  } else {
    WEIR_RETURN_IF_ERROR(read_yarn(parameters, factor.has_value(), spec, rope));
  }
  return {};
}

// One rotation: `parameters` (nullptr: none given) over `theta`, what older keys or the family say.
Result<RopeSpec> read_rope(const JsonFields* parameters, const JsonFields& config, const ModelSpec& spec,
                           double theta) {
  RopeSpec rope;
  rope.pairing = RopeSpec::Pairing::kHalves;
  rope.theta = theta;
  WEIR_TRY(double fraction, number_or(config, "partial_rotary_factor", 1.0));
  if (parameters != nullptr) {
    WEIR_TRY(rope.theta, number_or(*parameters, "rope_theta", theta));
    WEIR_TRY(fraction, number_or(*parameters, "partial_rotary_factor", fraction));
  }
  if (!(fraction > 0 && fraction <= 1)) {
    return fail_at("partial_rotary_factor", ErrorCode::kCorruptFile,
                   "{}: \"partial_rotary_factor\" is {}; a number above 0, up to 1 expected", config.file(), fraction);
  }
  rope.dims = static_cast<int>(spec.head_dim * fraction);
  if (parameters != nullptr) WEIR_RETURN_IF_ERROR(read_scaling(*parameters, config, spec, rope));
  return rope;
}

}  // namespace

Status ropes_from_config(const JsonFields& config, ModelSpec& spec) {
  const bool gemma = spec.family == "gemma3";
  WEIR_TRY(const auto old_scaling, config.object("rope_scaling"));
  WEIR_TRY(auto parameters, config.object("rope_parameters"));
  std::optional<JsonFields> global = parameters, local;
  if (parameters && (parameters->has("full_attention") || parameters->has("sliding_attention"))) {
    WEIR_TRY(global, parameters->object("full_attention"));
    WEIR_TRY(local, parameters->object("sliding_attention"));
  }
  if (old_scaling) global = old_scaling;
  WEIR_TRY(const double theta, number_or(config, "rope_theta", gemma ? kGemmaGlobalTheta : kDefaultTheta));
  WEIR_TRY(auto rope, read_rope(global ? &*global : nullptr, config, spec, theta));
  spec.ropes.push_back(std::move(rope));
  if (!gemma) return {};
  WEIR_TRY(const double local_theta, number_or(config, "rope_local_base_freq", kDefaultTheta));
  WEIR_TRY(auto local_rope, read_rope(local ? &*local : nullptr, config, spec, local_theta));
  spec.ropes.push_back(std::move(local_rope));
  return {};
}

}  // namespace weir::load
