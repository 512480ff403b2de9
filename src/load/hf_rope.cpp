#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "load/hf_parts.h"
#include "load/limits.h"

namespace weir::load {
namespace {

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

Result<std::vector<float>> read_divisors(const JsonFields& parameters, const char* key, const RopeSpec& rope) {
  const nlohmann::json* list = parameters.member(key);
  std::vector<float> divisors;
  const auto pairs = static_cast<std::size_t>(rope.dims / 2);
  if (list == nullptr || !list->is_array() || list->size() != pairs ||
      !std::ranges::all_of(*list, [](const auto& entry) { return entry.is_number(); })) {
    return fail_at(key, ErrorCode::kCorruptFile, "{}: \"{}\" must be a list of {} numbers, one for each pair",
                   parameters.file(), key, pairs);
  }
  for (const auto& entry : *list) divisors.push_back(entry.get<float>());
  return divisors;
}

Status read_long(const JsonFields& parameters, bool has_factor, const ModelSpec& spec, RopeSpec& rope) {
  rope.scaling = RopeSpec::Scaling::kLong;
  const auto original = static_cast<double>(rope.original_context);
  if (!has_factor) rope.factor = static_cast<double>(spec.context_length) / original;
  WEIR_TRY(rope.frequency_divisors, read_divisors(parameters, "short_factor", rope));
  WEIR_TRY(rope.long_divisors, read_divisors(parameters, "long_factor", rope));
  const double own = rope.factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(rope.factor) / std::log(original));
  WEIR_TRY(rope.attention_factor, number_or(parameters, "attention_factor", own));
  return {};
}

Status read_scaling(const JsonFields& parameters, const JsonFields& config, const ModelSpec& spec, RopeSpec& rope) {
  WEIR_TRY(auto type, parameters.string("rope_type"));
  if (!type) {
    WEIR_TRY(type, parameters.string("type"));
  }
  std::string kind = type.value_or("default");
  // "mrope" turns parts of a head by a picture's rows and columns; to a text all of them are the same number.
  if (kind == "default" || kind == "mrope") return {};
  // "dynamic" leaves rotations alone up to max_position_embeddings, which is the context here. Beyond, the base would
  // follow from a sequence's length at every step, and a token's keys from how the prompt was cut into steps.
  if (kind == "dynamic") return {};
  // Phi 3's older names; no other YaRN has such lists.
  if (kind == "su" || (kind == "yarn" && parameters.has("short_factor"))) kind = "longrope";
  if (kind != "linear" && kind != "llama3" && kind != "yarn" && kind != "longrope") {
    return fail_at("rope_type", ErrorCode::kUnsupported,
                   "{}: RoPE scaling \"{}\" is not supported; default, dynamic, linear, llama3, longrope and yarn are",
                   parameters.file(), kind.substr(0, 60));
  }
  WEIR_TRY(const auto factor, parameters.number("factor"));
  if (!factor && kind != "yarn" && kind != "longrope") {
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
  } else if (kind == "longrope") {
    WEIR_RETURN_IF_ERROR(read_long(parameters, factor.has_value(), spec, rope));
  } else {
    WEIR_RETURN_IF_ERROR(read_yarn(parameters, factor.has_value(), spec, rope));
  }
  return {};
}

}  // namespace

Result<RopeSpec> read_hf_rope(const JsonFields* parameters, const JsonFields& config, const ModelSpec& spec, int width,
                              const HfDefaults& defaults) {
  RopeSpec rope;
  rope.pairing = defaults.pairing;
  WEIR_TRY(rope.theta, number_or(config, "rope_theta", defaults.theta));
  WEIR_TRY(double fraction, number_or(config, "partial_rotary_factor", defaults.rotated));
  if (parameters != nullptr) {
    WEIR_TRY(rope.theta, number_or(*parameters, "rope_theta", rope.theta));
    WEIR_TRY(fraction, number_or(*parameters, "partial_rotary_factor", fraction));
  }
  if (!(fraction > 0 && fraction <= 1)) {
    return fail_at("partial_rotary_factor", ErrorCode::kCorruptFile,
                   "{}: \"partial_rotary_factor\" is {}; a number above 0, up to 1 expected", config.file(), fraction);
  }
  rope.dims = static_cast<int>(width * fraction);
  if (parameters != nullptr) WEIR_RETURN_IF_ERROR(read_scaling(*parameters, config, spec, rope));
  return rope;
}

Result<std::optional<JsonFields>> hf_rope_parameters(const JsonFields& config, const char* kind) {
  WEIR_TRY(const auto parameters, config.object("rope_parameters"));
  const bool by_kind = parameters && (parameters->has("full_attention") || parameters->has("sliding_attention"));
  // The older key knows no kinds: it is about the layers that see everything.
  if (std::string_view(kind) == "full_attention") {
    WEIR_TRY(const auto old_scaling, config.object("rope_scaling"));
    if (old_scaling) return old_scaling;
    if (!by_kind) return parameters;
  }
  if (!by_kind) return std::optional<JsonFields>();
  return parameters->object(kind);
}

}  // namespace weir::load
