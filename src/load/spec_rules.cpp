#include "load/spec_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
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
  const bool needs_context = rope.scaling == RopeSpec::Scaling::kLlama3 || rope.scaling == RopeSpec::Scaling::kYarn;
  if (needs_context && rope.original_context <= 0) {
    return fail(ErrorCode::kCorruptFile, "{}: RoPE scaling needs the original context length, found {}", file,
                rope.original_context);
  }
  if (rope.scaling == RopeSpec::Scaling::kLlama3 && rope.high_freq_factor <= rope.low_freq_factor) {
    return fail(ErrorCode::kCorruptFile, "{}: high_freq_factor {} must be above low_freq_factor {}", file,
                rope.high_freq_factor, rope.low_freq_factor);
  }
  return {};
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
      !usable(spec.final_softcap) || !usable(spec.embedding_scale)) {
    return fail(
        ErrorCode::kCorruptFile,
        "{}: attention scale {}, attention softcap {}, final softcap {}, embedding scale {}: finite numbers expected",
        file, spec.attention_scale, spec.attention_softcap, spec.final_softcap, spec.embedding_scale);
  }
  for (const RopeSpec& rope : spec.ropes) WEIR_RETURN_IF_ERROR(check_rope(rope, spec.head_dim, file));
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

std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec, const Biases& biases) {
  using Shape = std::vector<std::int64_t>;
  const std::int64_t hidden = spec.hidden, q = std::int64_t{spec.heads} * spec.head_dim,
                     kv = std::int64_t{spec.kv_heads} * spec.head_dim;
  std::vector<ExpectedTensor> tensors;
  std::string prefix;
  const auto vector = [&](std::string_view name, std::int64_t size) {
    tensors.push_back({fmt::format("{}{}.weight", prefix, name), Shape{size}});
  };
  const auto linear = [&](std::string_view name, std::int64_t rows, std::int64_t cols, Presence bias) {
    tensors.push_back({fmt::format("{}{}.weight", prefix, name), Shape{rows, cols}});
    if (bias != Presence::kAbsent) tensors.push_back({fmt::format("{}{}.bias", prefix, name), Shape{rows}, bias});
  };
  linear("token_embd", spec.vocab, hidden, Presence::kAbsent);
  for (int layer = 0; layer < spec.layers; ++layer) {
    prefix = fmt::format("blk.{}.", layer);
    vector("attn_norm", hidden);
    linear("attn_q", q, hidden, biases.qkv);
    linear("attn_k", kv, hidden, biases.qkv);
    linear("attn_v", kv, hidden, biases.qkv);
    if (spec.qk_norm) {
      vector("attn_q_norm", spec.head_dim);
      vector("attn_k_norm", spec.head_dim);
    }
    linear("attn_output", hidden, q, biases.attention_output);
    if (spec.post_norms) vector("post_attention_norm", hidden);
    vector("ffn_norm", hidden);
    linear("ffn_gate", spec.ffn, hidden, biases.ffn);
    linear("ffn_up", spec.ffn, hidden, biases.ffn);
    linear("ffn_down", hidden, spec.ffn, biases.ffn);
    if (spec.post_norms) vector("post_ffw_norm", hidden);
  }
  prefix.clear();
  vector("output_norm", hidden);
  if (!spec.tied_embeddings) linear("output", spec.vocab, hidden, Presence::kAbsent);
  return tensors;
}

tl::unexpected<Error> unsupported_architecture(const std::string& file, std::string_view what, std::string_view name,
                                               std::span<const std::string_view> supported) {
  const auto common_prefix = [&](std::string_view other) {
    return std::ranges::mismatch(name, other).in1 - name.begin();
  };
  const std::string_view nearest = *std::ranges::max_element(supported, {}, common_prefix);
  if (common_prefix(nearest) < 3) {
    return fail(ErrorCode::kUnsupported, "{}: {} \"{}\" is not supported. Supported: {}", file, what, name,
                fmt::join(supported, ", "));
  }
  return fail(ErrorCode::kUnsupported, "{}: {} \"{}\" is not supported; the nearest that is: {}. Supported: {}", file,
              what, name, nearest, fmt::join(supported, ", "));
}

}  // namespace weir::load
