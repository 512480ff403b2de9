#include "plan/operators.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace weir::plan {
namespace {

double ceil_div(double a, double b) {
  return std::ceil(a / b);
}

// Of a mean sequence of one kind in the step, what windows and choosers leave of it.
struct Mean {
  double sequences = 0, rows = 0, context = 0;  // rows and context of one
  double pairs = 0;                             // of all

  // Pairs where a row sees at most `most` positions.
  double pairs_within(double most) const {
    if (sequences <= 0) return 0;
    const double begin = std::max(0.0, context - rows);
    // Row i of begin+1 .. context sees min(i, most).
    const double growing = std::clamp(most - begin, 0.0, rows);
    const double clipped = growing * (begin + (growing + 1) / 2) + (rows - growing) * most;
    return std::min(pairs, sequences * clipped);
  }
  // KV entries that such rows read: the window of the first row to the last.
  double read_within(double most) const { return sequences * std::min(context, most - 1 + rows); }
  double read() const { return sequences * context; }
};

class Counter {
 public:
  Counter(const ModelCard& card, const StepShape& shape, const OperatorOptions& options)
      : card_(card), spec_(card.spec), options_(options), layout_(options.layout) {
    const double dp = layout_.dp, cp = layout_.cp;
    const auto decode = static_cast<double>(shape.decode_tokens);
    const auto prefill = static_cast<double>(shape.tokens - shape.decode_tokens);
    const auto prefill_sequences = static_cast<double>(shape.sequences - shape.decode_tokens);
    decode_.sequences = decode / dp;
    decode_.rows = 1;
    decode_.context = decode > 0 ? shape.decode_attended / decode : 0;
    decode_.pairs = shape.decode_attended / dp;
    prefill_.sequences = prefill_sequences / dp;
    prefill_.rows = prefill_sequences > 0 ? prefill / prefill_sequences : 0;
    prefill_.context =
        prefill_sequences > 0 ? std::max(0.0, shape.context_read - shape.decode_attended) / prefill_sequences : 0;
    prefill_.pairs = std::max(0.0, shape.attended - shape.decode_attended) / dp;
    // Context parallelism spreads the rows of prefill; a row of decoding is computed by all, each with its part of KV.
    rows_ = (prefill / cp + decode) / dp;
    prefill_rows_ = prefill / cp / dp;
    stage_rows_ = static_cast<double>(shape.tokens);
    samples_ = static_cast<double>(shape.samples) / dp;
    act_ = options.activation_bits / 8;
  }

  std::vector<Operator> count() {
    elementwise("embedding", 1, rows_ * spec_.hidden * 2 * act_);
    count_layers();
    head();
    if (layout_.pp > 1) {
      Operator send{.name = "stage_send", .kind = OperatorKind::kSend, .repeats = layout_.pp - 1.0};
      send.message_bytes = rows_ * spec_.hidden * act_ / layout_.tp;
      send.participants = 2;
      operators_.push_back(send);
    }
    for (Operator& one : operators_) one.integer = options_.types.integer && one.compute_bits <= 8;
    return std::move(operators_);
  }

 private:
  // Layers that are alike are one entry with repeats.
  struct LayerKind {
    load::LayerSpec layer;
    std::vector<const CardTensor*> tensors;
    double repeats = 0;
  };

  void count_layers() {
    std::map<std::tuple<load::Mixer, bool, int>, LayerKind> kinds;
    std::vector<std::vector<const CardTensor*>> by_layer(spec_.layer.size());
    for (const CardTensor& tensor : card_.tensors) {
      if (tensor.layer >= 0 && static_cast<std::size_t>(tensor.layer) < by_layer.size())
        by_layer[static_cast<std::size_t>(tensor.layer)].push_back(&tensor);
    }
    for (std::size_t i = 0; i < spec_.layer.size(); ++i) {
      const load::LayerSpec& layer = spec_.layer[i];
      LayerKind& kind = kinds[{layer.mixer, layer.sparse, layer.window}];
      if (kind.repeats == 0) {
        kind.layer = layer;
        kind.tensors = by_layer[i];
      }
      kind.repeats += 1;
    }
    for (const auto& [key, kind] : kinds) count_layer(kind);
  }

  void count_layer(const LayerKind& kind) {
    repeats_ = kind.repeats;
    double norms = 0;
    for (const CardTensor* tensor : kind.tensors)
      norms += tensor->role == TensorRole::kNorm && tensor->rows >= spec_.hidden;
    // A norm reads and writes its rows, a residual sum reads two and writes one.
    elementwise("norms", repeats_, rows_ * spec_.hidden * act_ * (2 * norms + 2 * 3));
    gemms(kind);
    switch (kind.layer.mixer) {
      case load::Mixer::kAttention:
        attention(kind.layer);
        break;
      case load::Mixer::kLatent:
        latent_attention(kind.layer);
        break;
      case load::Mixer::kDelta:
        delta();
        break;
    }
    all_reduce("attention_sum");
    if (kind.layer.sparse) {
      experts(kind);
    } else {
      elementwise("activation", repeats_, rows_ * ceil_div(spec_.ffn, layout_.tp) * 3 * act_);
      all_reduce("ffn_sum");
    }
  }

  // The matrices of attention, dense FFN, shared expert and router: those that read the same rows are one product.
  void gemms(const LayerKind& kind) {
    std::vector<Operator> products;
    for (const CardTensor* tensor : kind.tensors) {
      if (tensor->columns <= 1 || tensor->role == TensorRole::kExperts || tensor->role == TensorRole::kNorm) continue;
      if (tensor->name == "attn_k_b" || tensor->name == "attn_v_b" || tensor->name == "ssm_conv1d") continue;
      const auto [n, k] = share_of(*tensor);
      const std::string name = fused_name(tensor->name);
      auto found = std::ranges::find(products, name, &Operator::name);
      if (found == products.end()) {
        products.push_back({.name = name, .repeats = repeats_, .m = rows_, .k = k});
        found = products.end() - 1;
        found->compute_bits = compute_bits(*tensor);
        found->activation_bytes = rows_ * k * act_;
      }
      found->n += n;
      found->flops += 2 * rows_ * n * k;
      found->weight_bytes += n * k * options_.types.bits(*tensor) / 8;
      found->activation_bytes += rows_ * n * act_;
    }
    for (Operator& product : products) operators_.push_back(std::move(product));
  }

  static std::string fused_name(const std::string& name) {
    if (name == "attn_q" || name == "attn_k" || name == "attn_v" || name == "attn_gate") return "attn_qkv";
    if (name == "attn_q_a" || name == "attn_kv_a_mqa") return "attn_q_kv_a";
    if (name == "ffn_gate" || name == "ffn_up") return "ffn_gate_up";
    if (name == "ffn_gate_shexp" || name == "ffn_up_shexp") return "shared_gate_up";
    if (name == "ssm_out") return "ssm_out";
    if (name.starts_with("ssm_")) return "ssm_in";
    return name;
  }

  // Rows and columns of a device.
  std::pair<double, double> share_of(const CardTensor& tensor) const {
    const auto n = static_cast<double>(tensor.rows), k = static_cast<double>(tensor.columns);
    const double tp = layout_.tp;
    const std::string& name = tensor.name;
    if (name == "attn_k" || name == "attn_v") return {kv_heads() * spec_.head_dim, k};
    if (name == "attn_q" || name == "attn_q_b" || name == "attn_gate") return {ceil_div(n, tp), k};
    if (name == "attn_output" || name == "ffn_down" || name == "ffn_down_shexp" || name == "ssm_out")
      return {n, ceil_div(k, tp)};
    if (name.starts_with("ffn_gate_inp") || name.starts_with("attn_q_a") || name.starts_with("attn_kv_a") ||
        name.starts_with("indexer"))
      return {n, k};  // repeated on every device
    return {ceil_div(n, tp), k};
  }

  // KV heads of a device: at least one.
  double kv_heads() const { return ceil_div(spec_.kv_heads, layout_.tp); }
  double heads() const { return ceil_div(spec_.heads, layout_.tp); }
  double compute_bits(const CardTensor& tensor) const {
    return options_.types.operand_bits(options_.types.bits(tensor));
  }

  // What prefill and decoding do of one kind of attention: pairs and entries read, then operations per pair, bytes per
  // entry.
  struct Attention {
    double prefill_pairs = 0, prefill_read = 0, decode_pairs = 0, decode_read = 0;
    double prefill_flops_per_pair = 0, decode_flops_per_pair = 0;
    double entry_bytes = 0, row_bytes = 0;  // of KV; of a query and what comes out
  };

  void add_attention(const std::string& name, const Attention& a) {
    const double cp = layout_.cp;
    const auto add = [&](OperatorKind kind, double rows, double pairs, double read, double flops_per_pair) {
      if (pairs <= 0) return;
      Operator op{.name = name, .kind = kind, .repeats = repeats_};
      op.flops = pairs / cp * flops_per_pair;
      // The new rows' own entries are written once and read with the others.
      op.kv_bytes = (read / cp + rows) * a.entry_bytes;
      op.activation_bytes = rows * a.row_bytes;
      op.attended = pairs / cp;
      op.context_read = read / cp;
      operators_.push_back(op);
    };
    add(OperatorKind::kPrefillAttention, prefill_rows_, a.prefill_pairs, a.prefill_read, a.prefill_flops_per_pair);
    add(OperatorKind::kDecodeAttention, decode_.sequences, a.decode_pairs, a.decode_read, a.decode_flops_per_pair);
  }

  void attention(const load::LayerSpec& layer) {
    Attention a;
    const double window = layer.window;
    a.prefill_pairs = window > 0 ? prefill_.pairs_within(window) : prefill_.pairs;
    a.decode_pairs = window > 0 ? decode_.pairs_within(window) : decode_.pairs;
    a.prefill_read = window > 0 ? prefill_.read_within(window) : prefill_.read();
    a.decode_read = window > 0 ? decode_.read_within(window) : decode_.read();
    const AttentionCost cost = attention_cost(spec_, layer.mixer, heads(), kv_heads(), false);
    a.prefill_flops_per_pair = a.decode_flops_per_pair = 2 * cost.pair;
    a.entry_bytes = cost.kept * options_.kv_bits / 8;
    a.row_bytes = 2 * heads() * spec_.head_dim * act_;
    add_attention("attention", a);
  }

  void latent_attention(const load::LayerSpec& layer) {
    const load::LatentSpec& l = spec_.latent;
    const bool chosen = spec_.indexer.heads > 0;
    const double most = chosen ? spec_.indexer.positions : layer.window;
    const double h = heads();
    const bool absorbed = options_.absorbed_prefill || chosen;
    // Either queries go into the latents' space and results out of it, or latents become keys and values.
    const double expansion = 2 * h * (l.plain_dim + l.value_dim) * static_cast<double>(l.rank);
    const double expanded_rows = absorbed ? 0 : prefill_.read() / layout_.cp;
    const double absorbed_rows = decode_.sequences + (absorbed ? prefill_rows_ : 0);
    Operator b{.name = "attn_kv_b", .repeats = repeats_, .m = expanded_rows + absorbed_rows};
    b.n = h * (l.plain_dim + l.value_dim);
    b.k = l.rank;
    b.flops = expansion * b.m;
    const CardTensor kv_b{.role = TensorRole::kAttention, .rows = 2, .columns = 2};
    b.weight_bytes = b.n * b.k * options_.types.bits(kv_b) / 8;
    b.compute_bits = compute_bits(kv_b);
    b.activation_bytes = b.m * (b.n + b.k) * act_;
    operators_.push_back(b);

    Attention a;
    a.prefill_pairs = most > 0 ? prefill_.pairs_within(most) : prefill_.pairs;
    a.decode_pairs = most > 0 ? decode_.pairs_within(most) : decode_.pairs;
    a.prefill_read = prefill_.read();
    a.decode_read = most > 0 ? decode_.read_within(most) : decode_.read();
    const AttentionCost in_latents = attention_cost(spec_, layer.mixer, h, 1, true);
    a.decode_flops_per_pair = 2 * in_latents.pair;
    a.prefill_flops_per_pair = 2 * attention_cost(spec_, layer.mixer, h, 1, absorbed).pair;
    a.entry_bytes = in_latents.kept * options_.kv_bits / 8;
    a.row_bytes = 2 * h * (l.plain_dim + l.rope_dim) * act_;
    add_attention("attention", a);
    if (!chosen) return;
    Attention index;  // every head of the indexer scores every position, on every device
    index.prefill_pairs = prefill_.pairs;
    index.decode_pairs = decode_.pairs;
    index.prefill_read = prefill_.read();
    index.decode_read = decode_.read();
    index.prefill_flops_per_pair = index.decode_flops_per_pair = 2.0 * spec_.indexer.heads * spec_.indexer.head_dim;
    index.entry_bytes = spec_.indexer.head_dim * options_.kv_bits / 8;
    index.row_bytes = spec_.indexer.heads * spec_.indexer.head_dim * act_;
    add_attention("indexer", index);
  }

  // A matrix of key_dim x value_dim per head, decayed, corrected by an outer product and read for every token. Chunked
  // kernels do the same sums in blocks; the state moves once per sequence and pass.
  void delta() {
    const load::DeltaSpec& d = spec_.delta;
    const double values = ceil_div(d.value_heads, layout_.tp);
    Operator op{.name = "delta_rule", .kind = OperatorKind::kElementwise, .repeats = repeats_};
    const double cells = values * d.key_dim * d.value_dim;
    op.flops = rows_ * (6 * cells + 2.0 * d.taps * d.conv_width() / layout_.tp);
    op.kv_bytes =
        (prefill_.sequences + decode_.sequences) * 2 * 4.0 * static_cast<double>(d.state_floats()) / layout_.tp;
    op.activation_bytes = rows_ * 2 * (static_cast<double>(d.conv_width()) / layout_.tp + values * d.value_dim) * act_;
    operators_.push_back(op);
  }

  void experts(const LayerKind& kind) {
    const load::ExpertsSpec& e = spec_.experts;
    const double ep = layout_.ep, local = ceil_div(e.count, ep), ffn = ceil_div(e.ffn, layout_.expert_tp());
    const double touched = std::min(local, distinct_experts(e.count, e.used, stage_rows_) / ep);
    const double pairs = stage_rows_ * e.used / ep;  // rows of experts on this device
    CardTensor expert{.role = TensorRole::kExperts, .rows = 2, .columns = 2};
    for (const CardTensor* tensor : kind.tensors) {
      if (tensor->role == TensorRole::kExperts && tensor->columns > 1) expert = *tensor;
    }
    const auto add = [&](const char* name, double n, double k) {
      Operator op{.name = name, .kind = OperatorKind::kGroupedGemm, .repeats = repeats_};
      op.m = touched > 0 ? pairs / touched : 0;
      op.n = n;
      op.k = k;
      op.groups = touched;
      op.flops = 2 * pairs * n * k;
      op.weight_bytes = touched * n * k * options_.types.bits(expert) / 8;
      op.activation_bytes = pairs * (n + k) * act_;
      op.compute_bits = compute_bits(expert);
      operators_.push_back(op);
    };
    add("experts_gate_up", 2 * ffn, spec_.hidden);
    elementwise("experts_activation", repeats_, pairs * ffn * 3 * act_);
    add("experts_down", spec_.hidden, ffn);
    if (layout_.dp * layout_.cp > 1) {
      // Devices of a group share its rows: each sends its part to the experts' devices and gets the results back.
      const double targets = std::min<double>(e.used, ep);
      for (const char* name : {"dispatch", "combine"}) {
        Operator op{.name = name, .kind = OperatorKind::kAllToAll, .repeats = repeats_};
        op.message_bytes = rows_ / layout_.tp * targets * spec_.hidden * act_;
        op.participants = layout_.stage_devices();
        operators_.push_back(op);
      }
      return;
    }
    all_reduce("experts_sum");
  }

  void head() {
    if (samples_ <= 0) return;
    CardTensor table{.role = TensorRole::kHead, .rows = spec_.vocab, .columns = spec_.hidden};
    if (spec_.tied_embeddings) table.role = TensorRole::kEmbedding;
    Operator op{
        .name = "head", .m = samples_, .n = ceil_div(spec_.vocab, layout_.tp), .k = static_cast<double>(spec_.hidden)};
    op.flops = 2 * op.m * op.n * op.k;
    op.weight_bytes = op.n * op.k * options_.types.bits(table) / 8;
    op.activation_bytes = op.m * (op.k * act_ + op.n * 4);
    op.compute_bits = compute_bits(table);
    operators_.push_back(op);
  }

  void all_reduce(const char* name) {
    if (layout_.tp <= 1) return;
    Operator op{.name = name, .kind = OperatorKind::kAllReduce, .repeats = repeats_};
    op.message_bytes = rows_ * spec_.hidden * act_;
    op.participants = layout_.tp;
    operators_.push_back(op);
  }

  void elementwise(const char* name, double repeats, double bytes) {
    Operator op{.name = name, .kind = OperatorKind::kElementwise, .repeats = repeats};
    op.activation_bytes = bytes;
    operators_.push_back(op);
  }

  const ModelCard& card_;
  const load::ModelSpec& spec_;
  const OperatorOptions& options_;
  const ParallelLayout& layout_;
  Mean prefill_, decode_;
  double rows_ = 0, prefill_rows_ = 0, stage_rows_ = 0, samples_ = 0, act_ = 2, repeats_ = 1;
  std::vector<Operator> operators_;
};

}  // namespace

std::string operator_kind_name(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::kGemm:
      return "gemm";
    case OperatorKind::kGroupedGemm:
      return "grouped_gemm";
    case OperatorKind::kPrefillAttention:
      return "prefill_attention";
    case OperatorKind::kDecodeAttention:
      return "decode_attention";
    case OperatorKind::kElementwise:
      return "elementwise";
    case OperatorKind::kAllReduce:
      return "all_reduce";
    case OperatorKind::kAllToAll:
      return "all_to_all";
    case OperatorKind::kSend:
      return "send";
  }
  return "";
}

std::vector<Operator> operators_of(const ModelCard& card, const StepShape& shape, const OperatorOptions& options) {
  const ParallelLayout& l = options.layout;
  CHECK(l.tp > 0 && l.pp > 0 && l.dp > 0 && l.ep > 0 && l.cp > 0, "layout {}", l.name());
  if (shape.tokens <= 0) return {};
  return Counter(card, shape, options).count();
}

OperatorTotals totals_of(const std::vector<Operator>& operators) {
  OperatorTotals totals;
  for (const Operator& one : operators) {
    totals.flops += one.repeats * one.flops;
    totals.weight_bytes += one.repeats * one.weight_bytes;
    totals.kv_bytes += one.repeats * one.kv_bytes;
    totals.activation_bytes += one.repeats * one.activation_bytes;
    totals.message_bytes += one.repeats * one.message_bytes;
  }
  return totals;
}

double floor_s(const Operator& one, const Hardware& hardware) {
  if (one.message_bytes > 0) {
    const bool inside = one.participants <= hardware.domain && hardware.link_gbs > 0;
    const double gbs = inside ? hardware.link_gbs : hardware.nic_gbit > 0 ? hardware.nic_gbit / 8 : hardware.pcie_gbs;
    if (gbs <= 0) return 0;
    const double p = one.participants;
    const double share = one.kind == OperatorKind::kAllReduce  ? 2 * (p - 1) / p
                         : one.kind == OperatorKind::kAllToAll ? (p - 1) / p
                                                               : 1;
    return one.message_bytes * share / (gbs * 1e9);
  }
  return std::max(one.flops / (hardware.peak_tflops(one.compute_bits, one.integer) * 1e12),
                  one.bytes() / (hardware.bandwidth_gbs * 1e9));
}

bool compute_bound(const Operator& one, const Hardware& hardware) {
  return one.intensity() > ridge_intensity(hardware, one.compute_bits, one.integer);
}

double ridge_intensity(const Hardware& hardware, double compute_bits, bool integer) {
  return hardware.peak_tflops(compute_bits, integer) * 1e12 / (hardware.bandwidth_gbs * 1e9);
}

AttentionCost attention_cost(const load::ModelSpec& spec, load::Mixer mixer, double heads, double kv_heads,
                             bool absorbed) {
  if (mixer != load::Mixer::kLatent) return {2 * heads * spec.head_dim, 2 * kv_heads * spec.head_dim};
  const load::LatentSpec& l = spec.latent;
  const double per_head =
      absorbed ? 2.0 * l.rank + l.rope_dim : static_cast<double>(l.plain_dim + l.rope_dim + l.value_dim);
  return {heads * per_head, static_cast<double>(l.rank + l.rope_dim)};
}

double distinct_experts(double count, double used, double tokens) {
  if (count <= 0 || tokens <= 0) return 0;
  return count * (1 - std::pow(1 - used / count, tokens));
}

}  // namespace weir::plan
