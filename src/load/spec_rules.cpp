#include "load/spec_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "load/limits.h"

namespace weir::load {
namespace {

Status check_rope(const RopeSpec& rope, int head_dim, const std::string& file) {
  if (rope.dims < 2 || rope.dims % 2 != 0 || rope.dims > head_dim) {
    return fail(ErrorCode::kCorruptFile,
                "{}: {} of {} elements of a head are rotated; an even number of 2 to {} expected", file, rope.dims,
                head_dim, head_dim);
  }
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  if (!positive(rope.theta) || rope.theta <= 1.0) {
    return fail(ErrorCode::kCorruptFile, "{}: the RoPE base is {}; a number above 1 expected", file, rope.theta);
  }
  if (!positive(rope.factor) || !positive(rope.low_freq_factor) || !positive(rope.high_freq_factor) ||
      !positive(rope.beta_fast) || !positive(rope.beta_slow) || !std::isfinite(rope.attention_factor) ||
      rope.attention_factor < 0) {
    return fail(ErrorCode::kCorruptFile,
                "{}: RoPE scaling has factor {}, low_freq_factor {}, high_freq_factor {}, beta_fast {}, beta_slow {}, "
                "attention factor {}; "
                "positive numbers expected",
                file, rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.beta_fast, rope.beta_slow,
                rope.attention_factor);
  }
  const bool needs_context = rope.scaling > RopeSpec::Scaling::kLinear;
  if (needs_context && rope.original_context <= 0) {
    return fail(ErrorCode::kCorruptFile, "{}: RoPE scaling needs the original context length, found {}", file,
                rope.original_context);
  }
  if (rope.scaling == RopeSpec::Scaling::kLlama3 && rope.high_freq_factor <= rope.low_freq_factor) {
    return fail(ErrorCode::kCorruptFile, "{}: high_freq_factor {} must be above low_freq_factor {}", file,
                rope.high_freq_factor, rope.low_freq_factor);
  }
  const bool grows = rope.growth != 0;
  if (!std::isfinite(rope.growth) || rope.growth < 0 ||
      (grows && (rope.original_context <= 0 || rope.dims != head_dim))) {
    return fail(
        ErrorCode::kCorruptFile,
        "{}: queries grow by {} every {} positions, {} of {} elements of a head being rotated; a positive number, "
        "the original context length and whole heads expected",
        file, rope.growth, rope.original_context, rope.dims, head_dim);
  }
  const auto pairs = static_cast<std::size_t>(rope.dims / 2);
  const auto check_divisors = [&](const std::vector<float>& divisors, bool may_lack) -> Status {
    if (divisors.empty() && may_lack) return {};
    if (divisors.size() != pairs || !std::ranges::all_of(divisors, [&](float x) { return positive(x); })) {
      return fail(ErrorCode::kCorruptFile, "{}: {} RoPE factors for {} pairs; as many positive numbers expected", file,
                  divisors.size(), pairs);
    }
    return {};
  };
  const bool is_long = rope.scaling == RopeSpec::Scaling::kLong;
  WEIR_RETURN_IF_ERROR(check_divisors(rope.frequency_divisors, !is_long));
  return check_divisors(rope.long_divisors, !is_long);
}

// Names of experts and heads are made before any of their bytes are seen.
constexpr std::int64_t kMostNumbered = 1 << 16;

Status check_numbered(std::int64_t layers, std::int64_t each, std::string_view what, const std::string& file) {
  if (layers * each <= kMostNumbered) return {};
  return fail(ErrorCode::kCorruptFile, "{}: {} layers of {} {}; at most {} in all expected", file, layers, each, what,
              kMostNumbered);
}

Status check_experts(const ModelSpec& spec, const std::string& file) {
  const ExpertsSpec& experts = spec.experts;
  const RouterSpec& router = experts.router;
  if (experts.count == 0) return {};
  WEIR_RETURN_IF_ERROR(check_numbered(spec.layers, experts.count, "experts", file));
  if (experts.used < 1 || experts.used > experts.count || experts.ffn < 1 || experts.shared_ffn < 0) {
    return fail(ErrorCode::kCorruptFile, "{}: a token uses {} of {} experts of {} elements", file, experts.used,
                experts.count, experts.ffn);
  }
  if (router.groups < 1 || experts.count % router.groups != 0 || router.groups_used < 1 ||
      router.groups_used > router.groups) {
    return fail(ErrorCode::kCorruptFile, "{}: {} experts cannot be split evenly into {} groups of which {} are used",
                file, experts.count, router.groups, router.groups_used);
  }
  const int per_group = experts.count / router.groups;
  const bool two = router.groups > 1 && router.group_score == RouterSpec::GroupScore::kBestTwo;
  if (per_group * router.groups_used < experts.used || (two && per_group < 2)) {
    return fail(ErrorCode::kCorruptFile,
                "{}: {} groups of {} experts, of which {} are used, are too few for {} per token", file, router.groups,
                per_group, router.groups_used, experts.used);
  }
  if (!std::isfinite(router.scale) || !std::isfinite(router.sum_floor) || router.sum_floor < 0) {
    return fail(ErrorCode::kCorruptFile, "{}: experts' weights are multiplied by {}; a finite number expected", file,
                router.scale);
  }
  return {};
}

Status check_mixers(const ModelSpec& spec, const std::string& file) {
  const auto has = [&](Mixer mixer) {
    return std::ranges::find(spec.layer, mixer, &LayerSpec::mixer) != spec.layer.end();
  };
  const LatentSpec& latent = spec.latent;
  if (has(Mixer::kLatent)) {
    WEIR_RETURN_IF_ERROR(check_numbered(spec.layers, spec.heads, "heads", file));
    if (latent.rank < 1 || latent.plain_dim < 1 || latent.rope_dim < 2 || latent.rope_dim % 2 != 0 ||
        latent.value_dim < 1 || latent.query_rank < 0) {
      return fail(
          ErrorCode::kCorruptFile,
          "{}: latent attention of rank {}, keys of {} + {} and values of {} elements; positive numbers expected", file,
          latent.rank, latent.plain_dim, latent.rope_dim, latent.value_dim);
    }
  }
  const IndexerSpec& indexer = spec.indexer;
  if (indexer.heads > 0 && (!has(Mixer::kLatent) || latent.query_rank < 1 || indexer.positions < 1 ||
                            indexer.head_dim < latent.rope_dim || indexer.head_dim % 2 != 0)) {
    return fail(ErrorCode::kCorruptFile,
                "{}: an indexer of {} heads of {} that chooses {} positions, beside queries of rank {}", file,
                indexer.heads, indexer.head_dim, indexer.positions, latent.query_rank);
  }
  if (std::ranges::all_of(spec.layer, [](const LayerSpec& layer) { return layer.mixer == Mixer::kDelta; })) {
    return fail(ErrorCode::kCorruptFile, "{}: no layer has attention; at least one is expected", file);
  }
  const DeltaSpec& delta = spec.delta;
  if (has(Mixer::kDelta) && (delta.key_heads < 1 || delta.value_heads < 1 || delta.value_heads % delta.key_heads != 0 ||
                             delta.key_dim < 1 || delta.value_dim < 1 || delta.taps < 1)) {
    return fail(ErrorCode::kCorruptFile, "{}: {} value heads of {} cannot share {} key heads of {} evenly, or {} taps",
                file, delta.value_heads, delta.value_dim, delta.key_heads, delta.key_dim, delta.taps);
  }
  return {};
}

// What tells classes apart, without case and the endings that most of them have.
std::string distinctive(std::string_view name) {
  std::string lower(name.substr(0, 100));
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view ending : {"forcausallm", "forconditionalgeneration", "lmheadmodel", "model"}) {
    if (lower.size() <= ending.size() || !lower.ends_with(ending)) continue;
    lower.resize(lower.size() - ending.size());
    break;
  }
  return lower;
}

// Levenshtein's: characters added, taken away or changed.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// The name most alike, and two more where at least half of their characters agree.
std::vector<std::string_view> nearest_names(std::string_view name, std::span<const std::string_view> supported) {
  const std::string wanted = distinctive(name);
  std::vector<std::pair<double, std::string_view>> by_distance;
  for (const std::string_view other : supported) {
    const std::string own = distinctive(other);
    by_distance.emplace_back(static_cast<double>(edits_between(wanted, own)) /
                                 static_cast<double>(std::max({wanted.size(), own.size(), std::size_t{1}})),
                             other);
  }
  std::ranges::stable_sort(by_distance, {}, [](const auto& entry) { return entry.first; });
  std::vector<std::string_view> nearest;
  for (const auto& [distance, other] : by_distance) {
    if (!nearest.empty() && (distance > 0.5 || nearest.size() == 3)) break;
    nearest.push_back(other);
  }
  return nearest;
}

}  // namespace

Status check_spec(const ModelSpec& spec, const std::string& file) {
  if (spec.kv_heads > spec.heads || spec.heads % spec.kv_heads != 0) {
    return fail(ErrorCode::kCorruptFile, "{}: {} query heads cannot share {} KV heads evenly", file, spec.heads,
                spec.kv_heads);
  }
  if (spec.head_dim % 2 != 0) {
    return fail(ErrorCode::kCorruptFile, "{}: a head has {} elements; an even number expected", file, spec.head_dim);
  }
  const auto usable = [](float x) { return std::isfinite(x) && x >= 0; };
  if (!usable(spec.rms_eps) || spec.rms_eps >= 1) {
    return fail(ErrorCode::kCorruptFile, "{}: the RMSNorm epsilon is {}; a number from 0 to 1 expected", file,
                spec.rms_eps);
  }
  if (!usable(spec.attention_scale) || spec.attention_scale == 0 || !usable(spec.attention_softcap) ||
      !usable(spec.final_softcap) || !usable(spec.embedding_scale) || !usable(spec.residual_scale) ||
      !usable(spec.logit_scale) || spec.logit_scale == 0) {
    return fail(
        ErrorCode::kCorruptFile,
        "{}: attention scale {}, attention softcap {}, final softcap {}, embedding scale {}, residual scale {}, "
        "logit scale {}: finite numbers expected",
        file, spec.attention_scale, spec.attention_softcap, spec.final_softcap, spec.embedding_scale,
        spec.residual_scale, spec.logit_scale);
  }
  if (!usable(spec.swiglu_alpha) || !usable(spec.swiglu_limit) || spec.swiglu_limit == 0 || !usable(spec.qkv_clip)) {
    return fail(ErrorCode::kCorruptFile,
                "{}: SwiGLU with alpha {} and limit {}, q, k and v clipped at {}: positive numbers expected", file,
                spec.swiglu_alpha, spec.swiglu_limit, spec.qkv_clip);
  }
  WEIR_RETURN_IF_ERROR(check_mixers(spec, file));
  WEIR_RETURN_IF_ERROR(check_experts(spec, file));
  const int turned = spec.latent.rank > 0 ? spec.latent.rope_dim : spec.head_dim;
  for (const RopeSpec& rope : spec.ropes) WEIR_RETURN_IF_ERROR(check_rope(rope, turned, file));
  return {};
}

double yarn_magnitude(double factor, double m) {
  return factor <= 1.0 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
}

std::int64_t stretched_context(const RopeSpec& rope, std::int64_t stated) {
  if (rope.scaling != RopeSpec::Scaling::kYarn) return stated;
  const double reach = rope.factor * static_cast<double>(rope.original_context);
  if (!(reach > static_cast<double>(stated))) return stated;
  return static_cast<std::int64_t>(std::min(reach, static_cast<double>(kContextRange.high)));
}

tl::unexpected<Error> unsupported_architecture(const std::string& file, std::string_view what, std::string_view name,
                                               std::span<const std::string_view> supported) {
  return fail(ErrorCode::kUnsupported, "{}: {} \"{}\" is not supported; the nearest that is: {}. Supported: {}", file,
              what, name, fmt::join(nearest_names(name, supported), ", "), fmt::join(supported, ", "));
}

}  // namespace weir::load
