#include "load/expected_tensors.h"

namespace weir::load {
namespace {

class List {
 public:
  List(const ModelSpec& spec, const Biases& biases) : spec_(spec), biases_(biases) {}

  std::vector<ExpectedTensor> take() { return std::move(tensors_); }

  void begin_layer(int layer) { prefix_ = fmt::format("blk.{}.", layer); }
  void end_layers() { prefix_.clear(); }

  void vector(std::string_view name, std::int64_t size) { add(name, ".weight", {size}, Presence::kRequired); }
  void bias(std::string_view name, std::int64_t size, Presence presence = Presence::kRequired) {
    if (presence != Presence::kAbsent) add(name, ".bias", {size}, presence);
  }
  void matrix(std::string_view name, std::int64_t rows, std::int64_t cols, Presence with_bias = Presence::kAbsent) {
    add(name, ".weight", {rows, cols}, Presence::kRequired);
    bias(name, rows, with_bias);
  }

  void attention() {
    const std::int64_t hidden = spec_.hidden, q = std::int64_t{spec_.heads} * spec_.head_dim,
                       kv = std::int64_t{spec_.kv_heads} * spec_.head_dim;
    matrix("attn_q", q, hidden, biases_.qkv);
    matrix("attn_k", kv, hidden, biases_.qkv);
    matrix("attn_v", kv, hidden, biases_.qkv);
    if (spec_.attention_gate) matrix("attn_gate", q, hidden, biases_.qkv);
    if (spec_.qk_norm != QkNorm::kNone) {
      const bool width = spec_.qk_norm == QkNorm::kWidth;
      vector("attn_q_norm", width ? q : spec_.head_dim);
      vector("attn_k_norm", width ? kv : spec_.head_dim);
    }
    if (spec_.sinks) vector("attn_sinks", spec_.heads);
    matrix("attn_output", hidden, q, biases_.attention_output);
  }

  void latent_attention() {
    const LatentSpec& l = spec_.latent;
    const std::int64_t q = std::int64_t{spec_.heads} * (l.plain_dim + l.rope_dim);
    if (l.query_rank > 0) {
      matrix("attn_q_a", l.query_rank, spec_.hidden, biases_.qkv);
      vector("attn_q_a_norm", l.query_rank);
      matrix("attn_q_b", q, l.query_rank);
    } else {
      matrix("attn_q", q, spec_.hidden);
    }
    matrix("attn_kv_a_mqa", l.rank + l.rope_dim, spec_.hidden, biases_.qkv);
    vector("attn_kv_a_norm", l.rank);
    for (int head = 0; head < spec_.heads; ++head) {
      matrix(fmt::format("attn_k_b.{}", head), l.rank, l.plain_dim);
      matrix(fmt::format("attn_v_b.{}", head), l.value_dim, l.rank);
    }
    const IndexerSpec& indexer = spec_.indexer;
    if (indexer.heads > 0) {
      matrix("indexer.attn_q_b", std::int64_t{indexer.heads} * indexer.head_dim, l.query_rank);
      matrix("indexer.attn_k", indexer.head_dim, spec_.hidden);
      vector("indexer.k_norm", indexer.head_dim);
      bias("indexer.k_norm", indexer.head_dim);
      matrix("indexer.proj", indexer.heads, spec_.hidden);
    }
    matrix("attn_output", spec_.hidden, std::int64_t{spec_.heads} * l.value_dim, biases_.attention_output);
  }

  void delta_net() {
    const DeltaSpec& d = spec_.delta;
    const std::int64_t keys = std::int64_t{d.key_heads} * d.key_dim, values = std::int64_t{d.value_heads} * d.value_dim;
    matrix("ssm_q", keys, spec_.hidden);
    matrix("ssm_k", keys, spec_.hidden);
    matrix("ssm_v", values, spec_.hidden);
    matrix("ssm_z", values, spec_.hidden);
    matrix("ssm_beta", d.value_heads, spec_.hidden);
    matrix("ssm_alpha", d.value_heads, spec_.hidden);
    matrix("ssm_conv1d", d.conv_width(), d.taps);
    vector("ssm_a", d.value_heads);
    bias("ssm_dt", d.value_heads);
    vector("ssm_norm", d.value_dim);
    matrix("ssm_out", spec_.hidden, values);
  }

  void feed_forward() {
    matrix("ffn_gate", spec_.ffn, spec_.hidden, biases_.ffn);
    matrix("ffn_up", spec_.ffn, spec_.hidden, biases_.ffn);
    matrix("ffn_down", spec_.hidden, spec_.ffn, biases_.ffn);
  }

  void experts() {
    const ExpertsSpec& e = spec_.experts;
    const Presence biased = e.biases ? Presence::kRequired : Presence::kAbsent;
    matrix("ffn_gate_inp", e.count, spec_.hidden, e.router.bias ? Presence::kRequired : Presence::kAbsent);
    if (e.router.correction) bias("exp_probs_b", e.count);
    for (int i = 0; i < e.count; ++i) {
      matrix(fmt::format("ffn_gate.{}", i), e.ffn, spec_.hidden, biased);
      matrix(fmt::format("ffn_up.{}", i), e.ffn, spec_.hidden, biased);
      matrix(fmt::format("ffn_down.{}", i), spec_.hidden, e.ffn, biased);
    }
    if (e.shared_ffn > 0) {
      matrix("ffn_gate_shexp", e.shared_ffn, spec_.hidden);
      matrix("ffn_up_shexp", e.shared_ffn, spec_.hidden);
      matrix("ffn_down_shexp", spec_.hidden, e.shared_ffn);
      if (e.shared_gate) matrix("ffn_gate_inp_shexp", 1, spec_.hidden);
    }
  }

 private:
  void add(std::string_view name, std::string_view ending, std::vector<std::int64_t> shape, Presence presence) {
    tensors_.push_back({fmt::format("{}{}{}", prefix_, name, ending), std::move(shape), presence, {}});
  }

  const ModelSpec& spec_;
  const Biases& biases_;
  std::string prefix_;
  std::vector<ExpectedTensor> tensors_;
};

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec, const Biases& biases) {
  List list(spec, biases);
  list.matrix("token_embd", spec.vocab, spec.hidden);
  for (int i = 0; i < spec.layers; ++i) {
    const LayerSpec& layer = spec.layer[static_cast<std::size_t>(i)];
    list.begin_layer(i);
    if (spec.pre_norms) list.vector("attn_norm", spec.hidden);
    switch (layer.mixer) {
      case Mixer::kAttention:
        list.attention();
        break;
      case Mixer::kLatent:
        list.latent_attention();
        break;
      case Mixer::kDelta:
        list.delta_net();
        break;
    }
    if (spec.post_norms) list.vector("post_attention_norm", spec.hidden);
    if (spec.pre_norms && !spec.parallel) list.vector("ffn_norm", spec.hidden);
    if (layer.sparse) {
      list.experts();
    } else {
      list.feed_forward();
    }
    if (spec.post_norms) list.vector("post_ffw_norm", spec.hidden);
  }
  list.end_layers();
  list.vector("output_norm", spec.hidden);
  if (!spec.tied_embeddings) list.matrix("output", spec.vocab, spec.hidden);
  return list.take();
}

}  // namespace weir::load
