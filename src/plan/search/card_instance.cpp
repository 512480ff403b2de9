#include "plan/search/card_instance.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/search/collectives.h"

namespace weir::plan {
namespace {

// What kernels reach of a device's peaks. Bandwidth: AIConfigurator's derating of memory-bound operators. Arithmetic:
// large GEMMs of its operator tables reach 0.6 (FP8) to 0.85 (BF16) of the peak on H100, prefill attention 0.6.
constexpr double kBandwidthShare = 0.8, kGemmShare = 0.7, kAttentionShare = 0.6;
// BLIS's fitted priors (inference-sim @f90a1e3): what a layer and a pass cost whatever they compute.
constexpr double kLayerS = 32e-6, kPassS = 126e-6, kSequenceS = 4e-6;
// Engines leave a tenth of a device's memory to the runtime (vLLM's gpu_memory_utilization, 0.9).
constexpr double kUsableShare = 0.9;

// An operator of all layers of one kind: what a device computes and reads in a whole pass.
struct Cost {
  double flops = 0, bytes = 0;
};

class CardInstance : public InstanceModel {
 public:
  CardInstance(const ModelCard& card, const Hardware& hardware, const ParallelLayout& layout,
               const Precision& precision);

  StepParts parts(const StepShape& shape) const override { return times(shape).parts; }
  double step_s(const StepShape& shape) const override { return times(shape).total_s; }
  DeviceBytes memory(double rows) const override;
  double kv_bytes(double tokens, int block_size) const override {
    return sequence_bytes(std::ceil(tokens / block_size) * block_size, true) / layout_.pp;
  }
  double handover_bytes(double tokens) const override { return sequence_bytes(tokens, false); }

 private:
  struct Times {
    StepParts parts;
    double total_s = 0;
  };
  Times times(const StepShape& shape) const;
  void count_weights(const ModelCard& card);
  double sequence_bytes(double tokens, bool of_device) const;
  Cost attention(const StepShape& shape) const;
  double links_s(double rows, double expert_rows) const;

  const load::ModelSpec& spec_;
  const Hardware& hardware_;
  ParallelLayout layout_;
  Precision precision_;
  DeviceBytes memory_;
  // Of a device, over all stages: a pass goes through all of them.
  Cost linear_;      // a row's arithmetic; the weights' bytes
  Cost head_;        // the same of the output head, for rows that need logits
  Cost one_expert_;  // a row through one expert, whole; all experts' bytes on a device
  int sparse_layers_ = 0, full_layers_ = 0, latent_layers_ = 0, delta_layers_ = 0;
  std::vector<int> windows_;                                     // of the layers that have one
  double gemm_peak_ = 0, expert_peak_ = 0, attention_peak_ = 0;  // operations per second
};

CardInstance::CardInstance(const ModelCard& card, const Hardware& hardware, const ParallelLayout& layout,
                           const Precision& precision)
    : spec_(card.spec), hardware_(hardware), layout_(layout), precision_(precision) {
  for (const auto& layer : spec_.layer) {
    sparse_layers_ += layer.sparse;
    if (layer.mixer == load::Mixer::kDelta) {
      ++delta_layers_;
    } else if (layer.mixer == load::Mixer::kLatent) {
      ++latent_layers_;
    } else if (layer.window > 0) {
      windows_.push_back(layer.window);
    } else {
      ++full_layers_;
    }
  }
  const auto peak = [&](double bits) { return 1e12 * hardware.peak_tflops(bits); };
  gemm_peak_ = kGemmShare * peak(precision.weights.linear_bits);
  expert_peak_ = kGemmShare * peak(precision.weights.expert_bits);
  attention_peak_ = kAttentionShare * peak(16);
  count_weights(card);
  memory_.usable = kUsableShare * hardware.memory_bytes;
}

DeviceBytes CardInstance::memory(double rows) const {
  // Activations of a full pass, in 16 bits: the residual stream, its normed copy, the widest of attention and FFN
  // twice; and the logits of the rows that are sampled, in 32.
  const double widest = std::max<double>({static_cast<double>(spec_.heads) * spec_.head_dim, 2.0 * spec_.ffn,
                                          2.0 * spec_.experts.ffn * spec_.experts.used}) /
                        layout_.tp;
  DeviceBytes memory = memory_;
  memory.workspace = 2 * rows / layout_.cp * (2.0 * spec_.hidden + 2 * widest) +
                     4.0 * std::min(rows, 1024.0) * spec_.vocab / layout_.tp;
  return memory;
}

void CardInstance::count_weights(const ModelCard& card) {
  double embedding_bytes = 0, head_bytes = 0, layer_bytes = 0;
  for (const auto& tensor : card.tensors) {
    const double elements = static_cast<double>(tensor.elements());
    const double bytes = elements * precision_.weights.bits(tensor) / 8;
    switch (tensor.role) {
      case TensorRole::kEmbedding:
        embedding_bytes += bytes / layout_.tp;
        if (spec_.tied_embeddings) {
          head_.flops += 2 * elements / layout_.tp;
          head_.bytes += bytes / layout_.tp;
        }
        break;
      case TensorRole::kHead:
        head_bytes += bytes / layout_.tp;
        head_.flops += 2 * elements / layout_.tp;
        head_.bytes += bytes / layout_.tp;
        break;
      case TensorRole::kExperts:
        one_expert_.flops += 2 * elements / static_cast<double>(std::max<std::int64_t>(1, tensor.count));
        one_expert_.bytes += bytes / layout_.stage_devices();
        layer_bytes += bytes / layout_.stage_devices();
        break;
      case TensorRole::kNorm:
      case TensorRole::kRouter:
        linear_.flops += 2 * elements;
        linear_.bytes += bytes;
        layer_bytes += bytes;
        break;
      default:
        linear_.flops += 2 * elements / layout_.tp;
        linear_.bytes += bytes / layout_.tp;
        layer_bytes += bytes / layout_.tp;
    }
  }
  // The fullest stage: its share of the layers rounded up, and the larger of both ends, which are the same table if
  // tied.
  const double stage = std::ceil(static_cast<double>(spec_.layers) / layout_.pp) / spec_.layers;
  const double ends = layout_.pp > 1 ? std::max(embedding_bytes, spec_.tied_embeddings ? embedding_bytes : head_bytes)
                                     : embedding_bytes + head_bytes;
  memory_.weights = layer_bytes * stage + ends;
}

// What all layers keep of a sequence; `of_device`: with tp and cp taken into account, stages not.
double CardInstance::sequence_bytes(double tokens, bool of_device) const {
  const double element = precision_.kv_bits / 8;
  const double heads = of_device ? std::max(1.0, static_cast<double>(spec_.kv_heads) / layout_.tp) : spec_.kv_heads;
  const double width = 2 * heads * spec_.head_dim * element;
  double positions = full_layers_ * tokens;
  for (const int window : windows_) positions += std::min<double>(window, tokens);
  double bytes = positions * width;
  bytes += latent_layers_ * tokens * (spec_.latent.rank + spec_.latent.rope_dim) * element;
  if (spec_.indexer.heads > 0) bytes += latent_layers_ * tokens * spec_.indexer.head_dim * element;
  bytes /= of_device ? layout_.cp : 1;
  // Recurrent state is kept in 32 bits, one of a sequence however long.
  return bytes + 4.0 * delta_layers_ * static_cast<double>(spec_.delta.state_floats()) / (of_device ? layout_.tp : 1);
}

// Scores and values of all layers of one device, and the KV it reads.
Cost CardInstance::attention(const StepShape& shape) const {
  const double groups = layout_.dp, sequences = std::max(1.0, static_cast<double>(shape.sequences));
  const double context = shape.context_read / sequences;  // of one sequence
  Cost cost;
  cost.bytes = sequences / groups * sequence_bytes(context, true);
  const double split = static_cast<double>(layout_.tp) * layout_.cp * groups;
  const double rows = std::max(1.0, static_cast<double>(shape.tokens));
  // A window, or an indexer's choice, bounds what a row attends to.
  const auto pairs = [&](double bound, double all, double of_rows) {
    return bound > 0 ? std::min(all, bound * of_rows) : all;
  };
  double heads_flops = full_layers_ * shape.attended;
  for (const int window : windows_) heads_flops += pairs(window, shape.attended, rows);
  cost.flops += 4.0 * spec_.heads * spec_.head_dim * heads_flops / split;
  if (latent_layers_ > 0) {
    // Decoding stays in the latents' space; prompts expand them to heads.
    const auto& latent = spec_.latent;
    const double decode_rows = static_cast<double>(shape.decode_tokens);
    const double bound = spec_.indexer.heads > 0 ? spec_.indexer.positions : 0;
    const double decoding = pairs(bound, shape.decode_attended, decode_rows);
    const double prompts = pairs(bound, shape.attended - shape.decode_attended, rows - decode_rows);
    cost.flops += 2.0 * latent_layers_ * spec_.heads / split *
                  (decoding * (2.0 * latent.rank + latent.rope_dim) +
                   prompts * (latent.plain_dim + latent.rope_dim + latent.value_dim));
    cost.flops += 2.0 * latent_layers_ * spec_.indexer.heads * spec_.indexer.head_dim * shape.attended / split;
  }
  // The delta rule touches its state a few times for each row: read, decay, correct, write.
  cost.flops += 8.0 * delta_layers_ * static_cast<double>(spec_.delta.state_floats()) * rows / split;
  return cost;
}

// What a pass sends: sums over TP groups, tokens to experts and back, partial attention over CP, stage to stage.
double CardInstance::links_s(double rows, double expert_rows) const {
  const Links links(hardware_);
  const double row_bytes = 2.0 * spec_.hidden;
  double time_s = 0;
  if (layout_.tp > 1) {
    // Attention and FFN each end in a sum; experts over other devices bring their own exchange.
    const double sums = 2.0 * spec_.layers - (layout_.ep > 1 ? sparse_layers_ : 0);
    time_s += sums * links.all_reduce_s(layout_.tp, rows * row_bytes);
  }
  if (sparse_layers_ > 0 && layout_.stage_devices() > 1) {
    if (layout_.ep > 1) {
      // Each device sends its rows to the devices of their experts, and gets as many back.
      const double sent = expert_rows * row_bytes / layout_.stage_devices();
      time_s += 2.0 * sparse_layers_ * links.all_to_all_s(layout_.stage_devices(), sent);
    } else if (layout_.dp > 1) {
      // Experts cut over all groups: rows are gathered and their sums scattered, together an all-reduce.
      time_s += sparse_layers_ * links.all_reduce_s(layout_.stage_devices(), rows * layout_.dp * row_bytes);
    }
  }
  if (layout_.cp > 1) {
    const double width = 2.0 * spec_.heads * std::max(spec_.head_dim, spec_.latent.value_dim) / layout_.tp;
    time_s += spec_.layers * links.all_reduce_s(layout_.cp, rows * width);
  }
  const int stage_devices = layout_.stage_devices();
  return time_s + (layout_.pp - 1) * links.send_s(layout_.devices() <= hardware_.domain,
                                                  rows * row_bytes / std::min(layout_.tp, stage_devices));
}

CardInstance::Times CardInstance::times(const StepShape& shape) const {
  const double bandwidth = kBandwidthShare * 1e9 * hardware_.bandwidth_gbs;
  const double groups = layout_.dp, decode_rows = static_cast<double>(shape.decode_tokens);
  // CP shares the rows of prompts; decoding rows are computed by each of its devices.
  const double rows = (decode_rows + (static_cast<double>(shape.tokens) - decode_rows) / layout_.cp) / groups;
  const double passing = 4.0 * rows * spec_.hidden * spec_.layers;  // the residual stream, read and written

  Times times;
  const auto add = [&](double flops, double peak, double bytes) {
    const double compute_s = flops / peak, memory_s = bytes / bandwidth;
    times.parts.compute_s += compute_s;
    times.parts.memory_s += memory_s;
    times.total_s += std::max(compute_s, memory_s);
  };
  add(linear_.flops * rows, gemm_peak_, linear_.bytes + passing);
  const double samples = static_cast<double>(shape.samples) / groups;
  add(head_.flops * samples, gemm_peak_, samples > 0 ? head_.bytes : 0);
  const double expert_rows = static_cast<double>(shape.tokens) * spec_.experts.used;
  if (sparse_layers_ > 0) {
    // Each row chooses anew: some experts of a layer are chosen by none, and are not read.
    const double share = static_cast<double>(spec_.experts.used) / spec_.experts.count;
    const double touched = 1 - std::pow(1 - std::min(share, 1.0), static_cast<double>(shape.tokens));
    add(one_expert_.flops * expert_rows / layout_.stage_devices(), expert_peak_, one_expert_.bytes * touched);
  }
  const Cost scores = attention(shape);
  add(scores.flops, attention_peak_, scores.bytes);
  times.parts.links_s = links_s(rows, expert_rows);
  times.parts.fixed_s = kPassS + kLayerS * spec_.layers + kSequenceS * static_cast<double>(shape.sequences) / groups;
  times.total_s += times.parts.links_s + times.parts.fixed_s;
  return times;
}

}  // namespace

Status CardSource::check(const ParallelLayout& layout) const {
  const auto& spec = card_.spec;
  const auto divides = [&](int degree, int count, const char* what) -> Status {
    if (count == 0 || count % degree == 0) return {};
    return fail(ErrorCode::kUnsupported, "{} {} do not divide by {}", count, what, degree);
  };
  WEIR_RETURN_IF_ERROR(divides(layout.tp, spec.heads, "heads"));
  if (spec.kv_heads > 0 && spec.kv_heads % layout.tp != 0 && layout.tp % spec.kv_heads != 0)
    return fail(ErrorCode::kUnsupported, "{} KV heads neither divide by TP {} nor divide it", spec.kv_heads, layout.tp);
  WEIR_RETURN_IF_ERROR(divides(layout.tp, spec.ffn, "FFN columns"));
  if (layout.pp > spec.layers)
    return fail(ErrorCode::kUnsupported, "{} layers are fewer than {} stages", spec.layers, layout.pp);
  if (spec.experts.count > 0) {
    WEIR_RETURN_IF_ERROR(divides(layout.ep, spec.experts.count, "experts"));
    WEIR_RETURN_IF_ERROR(divides(layout.expert_tp(), spec.experts.ffn, "columns of an expert"));
  } else if (layout.ep > 1 || layout.dp > 1) {
    return fail(ErrorCode::kUnsupported, "a dense model has no experts to spread: deploy more instances instead");
  }
  if (layout.devices() > 1 && hardware_.link_gbs <= 0 && hardware_.pcie_gbs <= 0)
    return fail(ErrorCode::kUnsupported, "no link between devices of {} is known: give link_gbs", hardware_.name);
  if (layout.devices() > hardware_.domain && hardware_.nic_gbit <= 0) {
    return fail(ErrorCode::kUnsupported, "{} devices are more than the {} of a domain, and no network is known",
                layout.devices(), hardware_.domain);
  }
  return {};
}

Result<std::unique_ptr<InstanceModel>> CardSource::make(const ParallelLayout& layout,
                                                        const Precision& precision) const {
  WEIR_RETURN_IF_ERROR(check(layout));
  return std::make_unique<CardInstance>(card_, hardware_, layout, precision);
}

}  // namespace weir::plan
