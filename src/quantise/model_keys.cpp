#include "quantise/model_keys.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "load/spec_rules.h"

namespace weir::quantise {
namespace {

using load::ModelSpec;
using load::RopeSpec;
using std::int64_t;
using Scaling = RopeSpec::Scaling;

class Writer {
 public:
  Writer(const ModelSpec& spec, const std::string& architecture) : spec_(spec), architecture_(architecture) {}

  void u32(std::string_view key, int64_t value) {
    keys_.metadata.add_u32(full(key), static_cast<std::uint32_t>(value));
  }
  void f32(std::string_view key, double value) { keys_.metadata.add_f32(full(key), static_cast<float>(value)); }
  void flag(std::string_view key, bool value) { keys_.metadata.add_bool(full(key), value); }
  void text(std::string_view key, std::string_view value) { keys_.metadata.add_string(full(key), value); }

  void sizes();
  void attention(bool patterns);
  void latents();
  void rotation();
  void multipliers();
  void experts();
  void delta_nets();
  ModelKeys take() { return std::move(keys_); }

 private:
  std::string full(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  void yarn(const RopeSpec& rope);

  const ModelSpec& spec_;
  const std::string& architecture_;
  ModelKeys keys_;
};

void Writer::sizes() {
  keys_.metadata.add_string("general.architecture", architecture_);
  keys_.metadata.add_string("general.type", "model");
  keys_.metadata.add_string("general.name", spec_.name);
  u32("block_count", spec_.layers);
  u32("context_length", spec_.context_length);
  u32("embedding_length", spec_.hidden);
  u32("feed_forward_length", spec_.ffn);
  u32("vocab_size", spec_.vocab);
  const bool rms = spec_.norm == load::NormKind::kRms;
  f32(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", spec_.rms_eps);
}

void Writer::attention(bool patterns) {
  u32("attention.head_count", spec_.heads);
  u32("attention.head_count_kv", spec_.kv_heads);
  if (spec_.latent.rank == 0) {
    u32("attention.key_length", spec_.head_dim);
    u32("attention.value_length", spec_.head_dim);
  }
  int window = 0;
  std::vector<bool> local;
  for (const load::LayerSpec& layer : spec_.layer) {
    window = std::max(window, layer.window);
    local.push_back(layer.window != 0);
  }
  if (window == 0) return;
  u32("attention.sliding_window", window);
  if (patterns) keys_.metadata.add_bools(full("attention.sliding_window_pattern"), local);
}

// As attention over the latents, with one key for all heads; the heads' own lengths under other keys.
void Writer::latents() {
  const load::LatentSpec& latent = spec_.latent;
  if (latent.rank == 0) return;
  u32("attention.key_length", latent.rank + latent.rope_dim);
  u32("attention.value_length", latent.rank);
  u32("attention.key_length_mla", latent.plain_dim + latent.rope_dim);
  u32("attention.value_length_mla", latent.value_dim);
  u32("attention.kv_lora_rank", latent.rank);
  if (latent.query_rank > 0) u32("attention.q_lora_rank", latent.query_rank);
}

void Writer::yarn(const RopeSpec& rope) {
  if (rope.beta_fast != 32) f32("rope.scaling.yarn_beta_fast", rope.beta_fast);
  if (rope.beta_slow != 1) f32("rope.scaling.yarn_beta_slow", rope.beta_slow);
  const double own = load::yarn_magnitude(rope.factor);
  if (spec_.latent.rank > 0) {
    // A tenth of mscale_all_dim, by which attention is scaled: (0.1 m ln(factor) + 1)^2 over the usual scale.
    const double sharper = std::sqrt(spec_.attention_scale * std::sqrt(static_cast<double>(spec_.head_dim)));
    f32("rope.scaling.yarn_log_multiplier", rope.factor > 1 ? (sharper - 1) / std::log(rope.factor) : 0.0);
  } else if (rope.attention_factor != 0 && std::abs(rope.attention_factor / own - 1) > 1e-9) {
    f32("rope.scaling.attn_factor", rope.attention_factor / own);
  }
}

// What Llama 3 divides each frequency by (Llama 3.1's reference code): nothing for short waves, the factor for long
// ones, and between them what leads smoothly from one to the other.
std::vector<float> llama3_divisors(const RopeSpec& rope) {
  std::vector<float> divisors;
  const auto context = static_cast<double>(rope.original_context);
  for (int i = 0; i < rope.dims / 2; ++i) {
    const double wave = 2 * std::numbers::pi * std::pow(rope.theta, 2.0 * i / rope.dims);
    const double smooth = (context / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    const double within = std::clamp(smooth, 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - within) / rope.factor + within)));
  }
  return divisors;
}

void Writer::rotation() {
  const RopeSpec& rope = spec_.ropes[0];
  u32("rope.dimension_count", rope.dims);
  f32("rope.freq_base", rope.theta);
  const double growth = spec_.ropes.back().growth;
  if (growth != 0) f32("attention.temperature_scale", growth);
  if (spec_.ropes.size() > 1 && growth == 0) f32("rope.freq_base_swa", spec_.ropes[1].theta);
  switch (rope.scaling) {
    case Scaling::kNone:
      return;
    case Scaling::kLlama3:
      keys_.tensors.push_back({"rope_freqs.weight", llama3_divisors(rope)});
      return;
    case Scaling::kLinear:
      text("rope.scaling.type", "linear");
      f32("rope.scaling.factor", rope.factor);
      return;
    case Scaling::kYarn:
      text("rope.scaling.type", "yarn");
      f32("rope.scaling.factor", rope.factor);
      yarn(rope);
      break;
    case Scaling::kLong:
      text("rope.scaling.type", "longrope");
      f32("rope.scaling.attn_factor", rope.attention_factor);
      keys_.tensors.push_back({"rope_factors_long.weight", rope.long_divisors});
      keys_.tensors.push_back({"rope_factors_short.weight", rope.frequency_divisors});
      break;
  }
  u32("rope.scaling.original_context_length", rope.original_context);
}

void Writer::multipliers() {
  const double usual = 1.0 / std::sqrt(static_cast<double>(spec_.head_dim));
  if (spec_.latent.rank == 0 && std::abs(spec_.attention_scale / usual - 1) > 1e-6)
    f32("attention.scale", spec_.attention_scale);
  if (spec_.attention_softcap != 0) f32("attn_logit_softcapping", spec_.attention_softcap);
  if (spec_.final_softcap != 0) f32("final_logit_softcapping", spec_.final_softcap);
  if (spec_.embedding_scale != 1) f32("embedding_scale", spec_.embedding_scale);
  if (spec_.residual_scale != 1) f32("residual_scale", spec_.residual_scale);
  // Granite's converter writes what logits are divided by, Cohere's what they are multiplied with.
  const bool divides = architecture_.starts_with("granite");
  if (divides || spec_.logit_scale != 1) f32("logit_scale", divides ? 1.0 / spec_.logit_scale : spec_.logit_scale);
}

void Writer::experts() {
  const load::ExpertsSpec& experts = spec_.experts;
  const load::RouterSpec& router = experts.router;
  if (experts.count == 0) return;
  u32("expert_count", experts.count);
  u32("expert_used_count", experts.used);
  u32("expert_feed_forward_length", experts.ffn);
  // Granite's readers know only the one, others the other.
  if (experts.shared_gate || experts.shared_ffn % experts.ffn != 0 || architecture_ == "granitemoe") {
    u32("expert_shared_feed_forward_length", experts.shared_ffn);
  } else {
    u32("expert_shared_count", experts.shared_ffn / experts.ffn);
  }
  const auto sparse = std::ranges::find(spec_.layer, true, &load::LayerSpec::sparse);
  u32("leading_dense_block_count", sparse - spec_.layer.begin());
  if (architecture_ == "ernie4_5-moe") u32("interleave_moe_layer_step", 1);
  flag("expert_weights_norm", router.normalise);
  if (router.scale != 1) f32("expert_weights_scale", router.scale);
  if (router.groups > 1) {
    u32("expert_group_count", router.groups);
    u32("expert_group_used_count", router.groups_used);
  }
  using Scores = load::RouterSpec::Scores;
  u32("expert_gating_func", router.scores == Scores::kSoftmax ? 1 : router.scores == Scores::kSigmoid ? 2 : 3);
}

void Writer::delta_nets() {
  const load::DeltaSpec& delta = spec_.delta;
  if (delta.value_heads == 0) return;
  u32("ssm.conv_kernel", delta.taps);
  u32("ssm.state_size", delta.key_dim);
  u32("ssm.group_count", delta.key_heads);
  u32("ssm.time_step_rank", delta.value_heads);
  u32("ssm.inner_size", int64_t{delta.value_heads} * delta.value_dim);
  const auto attention = std::ranges::find(spec_.layer, load::Mixer::kAttention, &load::LayerSpec::mixer);
  u32("full_attention_interval", std::min<int64_t>(attention - spec_.layer.begin() + 1, spec_.layers));
}

// Numbers of a file have 32 bits.
bool near(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return near(x, y); });
}

std::string rope_difference(RopeSpec wanted, const RopeSpec& read) {
  if (wanted.scaling == Scaling::kLlama3) {
    wanted.frequency_divisors = llama3_divisors(wanted);
    wanted.scaling = Scaling::kNone;
  }
  if (wanted.dims != read.dims) return fmt::format("a rotation of {} elements of a head", wanted.dims);
  if (!near(wanted.theta, read.theta)) return fmt::format("a rotation of base {} in some layers", wanted.theta);
  if (wanted.pairing == RopeSpec::Pairing::kAdjacent && read.pairing != wanted.pairing)
    return "a rotation of neighbouring elements";
  if (wanted.scaling != read.scaling || !near(wanted.frequency_divisors, read.frequency_divisors) ||
      !near(wanted.long_divisors, read.long_divisors))
    return "the scaling of its rotation in some layers";
  if (wanted.scaling == Scaling::kNone) return "";
  if (wanted.scaling != Scaling::kLong && !near(wanted.factor, read.factor))
    return fmt::format("a rotation scaled by {}", wanted.factor);
  if (wanted.scaling == Scaling::kLinear) return "";
  if (wanted.original_context != read.original_context)
    return fmt::format("an original context of {} tokens", wanted.original_context);
  if (wanted.scaling == Scaling::kYarn &&
      (!near(wanted.beta_fast, read.beta_fast) || !near(wanted.beta_slow, read.beta_slow)))
    return fmt::format("YaRN with \"beta_fast\" {} and \"beta_slow\" {}", wanted.beta_fast, wanted.beta_slow);
  if (wanted.scaling == Scaling::kYarn && wanted.yarn_truncate != read.yarn_truncate)
    return fmt::format("YaRN with \"truncate\" {}", wanted.yarn_truncate);
  const auto factor = [](const RopeSpec& rope) {
    return rope.attention_factor == 0 ? load::yarn_magnitude(rope.factor) : rope.attention_factor;
  };
  if (!near(factor(wanted), factor(read))) return fmt::format("an attention factor of {}", factor(wanted));
  return "";
}

std::string layer_difference(const ModelSpec& wanted, const ModelSpec& read) {
  for (std::size_t i = 0; i < wanted.layer.size(); ++i) {
    const load::LayerSpec &a = wanted.layer[i], &b = read.layer[i];
    const auto said = [&](const std::string& what) { return fmt::format("{} in layer {}", what, i); };
    if (a.window != b.window)
      return said(a.window != 0 ? fmt::format("a sliding window of {} tokens", a.window)
                                : "attention without a window");
    if ((a.rope < 0) != (b.rope < 0)) return said(a.rope < 0 ? "no position embedding" : "a position embedding");
    if (a.mixer != b.mixer) return said("the kind of attention");
    if (a.sparse != b.sparse) return said(a.sparse ? "experts" : "a dense feed-forward part");
    if (a.rope < 0) continue;
    const auto rope = [](const ModelSpec& spec, int index) { return spec.ropes[static_cast<std::size_t>(index)]; };
    if (const std::string found = rope_difference(rope(wanted, a.rope), rope(read, b.rope)); !found.empty())
      return found;
    const auto growth = [&](const ModelSpec& spec, int index) { return index < 0 ? 0.0 : rope(spec, index).growth; };
    if (!near(growth(wanted, a.query_rope), growth(read, b.query_rope)))
      return said(fmt::format("queries that grow by {} with their position", growth(wanted, a.query_rope)));
  }
  return "";
}

std::string expert_difference(const load::ExpertsSpec& wanted, const load::ExpertsSpec& read) {
  const load::RouterSpec &a = wanted.router, &b = read.router;
  if (wanted.count != read.count || wanted.used != read.used || wanted.ffn != read.ffn)
    return fmt::format("{} of {} experts of size {}", wanted.used, wanted.count, wanted.ffn);
  if (wanted.shared_ffn != read.shared_ffn || wanted.shared_gate != read.shared_gate)
    return fmt::format("shared experts of size {}", wanted.shared_ffn);
  if (wanted.biases != read.biases || a.bias != b.bias) return "biases of experts";
  if (wanted.count == 0) return "";
  if (a.scores != b.scores || a.correction != b.correction) return "how it chooses experts";
  if (a.normalise != b.normalise)
    return a.normalise ? "weights of experts that add up to 1" : "weights of experts that do not add up to 1";
  if (!near(a.scale, b.scale)) return fmt::format("weights of experts scaled by {}", a.scale);
  if (a.groups != b.groups || a.groups_used != b.groups_used || (a.groups > 1 && a.group_score != b.group_score))
    return fmt::format("{} groups of experts, of which {} are used", a.groups, a.groups_used);
  return "";
}

bool same_latents(const load::LatentSpec& a, const load::LatentSpec& b) {
  return a.query_rank == b.query_rank && a.rank == b.rank && a.plain_dim == b.plain_dim && a.rope_dim == b.rope_dim &&
         a.value_dim == b.value_dim;
}

bool same_delta(const load::DeltaSpec& a, const load::DeltaSpec& b) {
  return a.key_heads == b.key_heads && a.value_heads == b.value_heads && a.key_dim == b.key_dim &&
         a.value_dim == b.value_dim && a.taps == b.taps &&
         (b.tiled || !a.tiled || a.key_heads == a.value_heads || a.key_heads == 1);  // heads can be put in turns
}

}  // namespace

ModelKeys model_keys(const ModelSpec& spec, const std::string& architecture, bool patterns) {
  Writer writer(spec, architecture);
  writer.sizes();
  writer.attention(patterns);
  writer.latents();
  writer.rotation();
  writer.multipliers();
  writer.experts();
  writer.delta_nets();
  return writer.take();
}

std::string first_difference(const ModelSpec& wanted, const ModelSpec& read) {
  const auto differs = [&](auto member) { return wanted.*member != read.*member; };
  const auto far = [&](auto member) { return !near(wanted.*member, read.*member); };
  for (const auto size : {&ModelSpec::layers, &ModelSpec::hidden, &ModelSpec::heads, &ModelSpec::kv_heads,
                          &ModelSpec::head_dim, &ModelSpec::ffn, &ModelSpec::vocab}) {
    if (differs(size)) return fmt::format("a size of {} (it comes back as {})", wanted.*size, read.*size);
  }
  if (differs(&ModelSpec::context_length)) return fmt::format("a context of {} tokens", wanted.context_length);
  if (far(&ModelSpec::rms_eps)) return fmt::format("norms with an epsilon of {}", wanted.rms_eps);
  if (differs(&ModelSpec::norm) || differs(&ModelSpec::pre_norms) || differs(&ModelSpec::post_norms) ||
      differs(&ModelSpec::qk_norm))
    return "its norms";
  if (differs(&ModelSpec::activation)) return "its activation";
  if (differs(&ModelSpec::tied_embeddings)) return "whether its output matrix is that of the embeddings";
  if (differs(&ModelSpec::parallel) || differs(&ModelSpec::attention_gate) || differs(&ModelSpec::sinks))
    return "the parts of its layers";
  if (far(&ModelSpec::embedding_scale)) return fmt::format("embeddings scaled by {}", wanted.embedding_scale);
  if (far(&ModelSpec::residual_scale)) return fmt::format("branches scaled by {}", wanted.residual_scale);
  if (far(&ModelSpec::logit_scale)) return fmt::format("logits scaled by {}", wanted.logit_scale);
  if (far(&ModelSpec::attention_scale)) return fmt::format("attention scaled by {}", wanted.attention_scale);
  if (far(&ModelSpec::qkv_clip)) return fmt::format("queries, keys and values clipped at {}", wanted.qkv_clip);
  if (wanted.activation == load::Activation::kClampedSwiglu &&
      (far(&ModelSpec::swiglu_alpha) || far(&ModelSpec::swiglu_limit)))
    return fmt::format("SwiGLU with alpha {} and limit {}", wanted.swiglu_alpha, wanted.swiglu_limit);
  if (far(&ModelSpec::attention_softcap)) return fmt::format("attention capped at {}", wanted.attention_softcap);
  if (far(&ModelSpec::final_softcap)) return fmt::format("logits capped at {}", wanted.final_softcap);
  if (!same_latents(wanted.latent, read.latent)) return "its latent attention";
  if (wanted.latent.rank > 0 && !near(wanted.latent.norm_eps, read.latent.norm_eps))
    return fmt::format("norms of latents with an epsilon of {} where others have {}", wanted.latent.norm_eps,
                       wanted.rms_eps);
  if (wanted.indexer.heads != read.indexer.heads) return "its sparse attention";
  if (!same_delta(wanted.delta, read.delta)) return "its delta nets, or the order of their heads";
  if (const std::string found = expert_difference(wanted.experts, read.experts); !found.empty()) return found;
  return layer_difference(wanted, read);
}

}  // namespace weir::quantise
