#include "plan/search/card_instance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/printable.h"
#include "plan/memory.h"
#include "plan/search/collectives.h"
#include "plan/step/fitted_step.h"

namespace weir::plan {
namespace {

// What kernels reach of a device's peaks. Bandwidth: AIConfigurator's derating of memory-bound operators. Arithmetic:
// large GEMMs of its operator tables reach 0.6 (FP8) to 0.85 (BF16) of the peak on H100, prefill attention 0.6.
constexpr double kBandwidthShare = 0.8, kGemmShare = 0.7, kAttentionShare = 0.6;
// BLIS's fitted priors (inference-sim @f90a1e3): what a layer and a pass cost whatever they compute.
constexpr double kLayerS = 32e-6, kPassS = 126e-6, kSequenceS = 4e-6;
// Rows of a pass whose logits are kept at once.
constexpr std::int64_t kMostSamples = 1024;
// Blocks say nothing of weights and workspace, nor rows of blocks but for windows, whose slack is a chunk's.
constexpr int kAnyBlock = 16;
constexpr std::int64_t kAnyRows = 2048;

// An operator of all layers of one kind: what a device computes and reads in a whole pass.
struct Cost {
  double flops = 0, bytes = 0;
};

class CardInstance : public InstanceModel {
 public:
  // `fitted`: what passes take but for the links of PP and CP; null: the closed form says it all.
  CardInstance(const ModelCard& card, const Hardware& hardware, const ParallelLayout& layout,
               const Precision& precision, std::unique_ptr<StepModel> fitted);

  StepParts parts(const StepShape& shape) const override;
  double step_s(const StepShape& shape) const override;
  DeviceBytes memory(double rows) const override;
  double kv_bytes(double tokens, int block_size) const override;
  double handover_bytes(double tokens) const override { return sequence_bytes(tokens, false); }

 private:
  struct Times {
    StepParts parts;
    double total_s = 0;
  };
  Times times(const StepShape& shape) const;
  void count_weights(const ModelCard& card);
  const MemoryUse& counted(std::int64_t rows, int block_size) const;
  double sequence_bytes(double tokens, bool of_device) const;
  Cost attention(const StepShape& shape) const;
  double rows_of_group(const StepShape& shape) const;
  double links_s(double rows, double expert_rows) const;
  double stage_links_s(double rows) const;

  const ModelCard& card_;
  const load::ModelSpec& spec_;
  const Hardware& hardware_;
  ParallelLayout layout_;
  Precision precision_;
  std::unique_ptr<StepModel> fitted_;
  mutable std::map<std::pair<std::int64_t, int>, MemoryUse> counted_;  // by rows and block size
  // Of a device, over all stages: a pass goes through all of them.
  Cost linear_;      // a row's arithmetic; the weights' bytes
  Cost head_;        // the same of the output head, for rows that need logits
  Cost one_expert_;  // a row through one expert, whole; all experts' bytes on a device
  int sparse_layers_ = 0, full_layers_ = 0, latent_layers_ = 0, delta_layers_ = 0;
  std::vector<int> windows_;                                     // of the layers that have one
  double gemm_peak_ = 0, expert_peak_ = 0, attention_peak_ = 0;  // operations per second
};

CardInstance::CardInstance(const ModelCard& card, const Hardware& hardware, const ParallelLayout& layout,
                           const Precision& precision, std::unique_ptr<StepModel> fitted)
    : card_(card),
      spec_(card.spec),
      hardware_(hardware),
      layout_(layout),
      precision_(precision),
      fitted_(std::move(fitted)) {
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
  const WeightTypes& types = precision.weights;
  const auto peak = [&](double stored) {
    return 1e12 * hardware.peak_tflops(types.operand_bits(stored), types.integer && stored < 16);
  };
  gemm_peak_ = kGemmShare * peak(precision.weights.linear_bits);
  expert_peak_ = kGemmShare * peak(precision.weights.expert_bits);
  attention_peak_ = kAttentionShare * peak(16);
  count_weights(card);
}

const MemoryUse& CardInstance::counted(std::int64_t rows, int block_size) const {
  const auto [at, is_new] = counted_.try_emplace({rows, block_size});
  if (is_new) {
    // The source has checked the layout.
    at->second = *memory_use(card_, hardware_,
                             {.layout = layout_,
                              .types = precision_.weights,
                              .kv_bits = precision_.kv_bits,
                              .block_tokens = block_size,
                              .step_tokens = rows,
                              .sequences = std::min<std::int64_t>(rows, kMostSamples)});
  }
  return at->second;
}

DeviceBytes CardInstance::memory(double rows) const {
  const auto& memory = counted(std::max<std::int64_t>(1, std::llround(rows)), kAnyBlock);
  return {.usable = memory.usable_bytes,
          .weights = memory.weights.total(),
          .workspace = memory.workspace_bytes + memory.reserved_bytes};
}

double CardInstance::kv_bytes(double tokens, int block_size) const {
  const auto& memory = counted(kAnyRows, block_size);
  if (memory.kv_layout.groups.empty()) return 0;
  const auto of_device = static_cast<std::int64_t>(std::ceil(tokens / memory.context_parts));
  return static_cast<double>(memory.kv_layout.blocks_needed(of_device, kAnyRows)) * memory.block_bytes;
}

void CardInstance::count_weights(const ModelCard& card) {
  for (const auto& tensor : card.tensors) {
    const double elements = static_cast<double>(tensor.elements());
    const double bytes = elements * precision_.weights.bits(tensor) / 8;
    switch (tensor.role) {
      case TensorRole::kEmbedding:
        if (spec_.tied_embeddings) {
          head_.flops += 2 * elements / layout_.tp;
          head_.bytes += bytes / layout_.tp;
        }
        break;
      case TensorRole::kHead:
        head_.flops += 2 * elements / layout_.tp;
        head_.bytes += bytes / layout_.tp;
        break;
      case TensorRole::kExperts:
        one_expert_.flops += 2 * elements / static_cast<double>(std::max<std::int64_t>(1, tensor.count));
        one_expert_.bytes += bytes / layout_.stage_devices();
        break;
      case TensorRole::kNorm:
      case TensorRole::kRouter:
        linear_.flops += 2 * elements;
        linear_.bytes += bytes;
        break;
      default:
        linear_.flops += 2 * elements / layout_.tp;
        linear_.bytes += bytes / layout_.tp;
    }
  }
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
  return time_s + stage_links_s(rows);
}

// Partial attention summed over CP, and rows handed from stage to stage.
double CardInstance::stage_links_s(double rows) const {
  if (layout_.cp == 1 && layout_.pp == 1) return 0;
  const Links links(hardware_);
  double time_s = 0;
  if (layout_.cp > 1) {
    const double width = 2.0 * spec_.heads * std::max(spec_.head_dim, spec_.latent.value_dim) / layout_.tp;
    time_s += spec_.layers * links.all_reduce_s(layout_.cp, rows * width);
  }
  if (layout_.pp > 1) {
    const double bytes = 2.0 * rows * spec_.hidden / std::min(layout_.tp, layout_.stage_devices());
    time_s += (layout_.pp - 1) * links.send_s(layout_.devices() <= hardware_.domain, bytes);
  }
  return time_s;
}

// CP shares the rows of prompts; decoding rows are computed by each of its devices.
double CardInstance::rows_of_group(const StepShape& shape) const {
  const double decode_rows = static_cast<double>(shape.decode_tokens);
  return (decode_rows + (static_cast<double>(shape.tokens) - decode_rows) / layout_.cp) / layout_.dp;
}

CardInstance::Times CardInstance::times(const StepShape& shape) const {
  const double bandwidth = kBandwidthShare * 1e9 * hardware_.bandwidth_gbs;
  const double groups = layout_.dp, rows = rows_of_group(shape);
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

double CardInstance::step_s(const StepShape& shape) const {
  return fitted_ ? fitted_->step_s(shape) + stage_links_s(rows_of_group(shape)) : times(shape).total_s;
}

// The fit says how long, the closed form what of it is what.
StepParts CardInstance::parts(const StepShape& shape) const {
  const Times closed = times(shape);
  if (!fitted_ || closed.total_s <= 0) return closed.parts;
  const double scale = step_s(shape) / closed.total_s;
  return {.memory_s = scale * closed.parts.memory_s,
          .compute_s = scale * closed.parts.compute_s,
          .links_s = scale * closed.parts.links_s,
          .fixed_s = scale * closed.parts.fixed_s};
}

}  // namespace

Status CardSource::check(const ParallelLayout& layout) const {
  WEIR_RETURN_IF_ERROR(check_layout(card_, layout));
  const auto& experts = card_.spec.experts;
  if (experts.count > 0 && (experts.count % layout.ep != 0 || experts.ffn % layout.expert_tp() != 0)) {
    return fail(ErrorCode::kUnsupported, "{} experts of {} columns do not divide evenly by EP {} and {} devices each",
                experts.count, experts.ffn, layout.ep, layout.expert_tp());
  }
  if (!card_.spec.has_sparse_layers() && layout.dp > 1)
    return fail(ErrorCode::kUnsupported, "a dense model has no experts to spread: deploy more instances instead");
  return check_links(hardware_, layout);
}

Status CardSource::check_backend() const {
  if (fitted() || backend_.empty()) return plan::check_backend(backend_);
  return fail_at("backend", ErrorCode::kInvalidArgument, "--backend {}: it was measured on GPUs only, and {} is none",
                 printable(backend_), hardware_.name);
}

Result<std::unique_ptr<InstanceModel>> CardSource::make(const ParallelLayout& layout,
                                                        const Precision& precision) const {
  WEIR_RETURN_IF_ERROR(check(layout));
  WEIR_RETURN_IF_ERROR(check_backend());
  std::unique_ptr<StepModel> fitted;
  if (this->fitted()) {
    WEIR_TRY(fitted, make_step_model(card_, hardware_, layout, precision.weights, precision.kv_bits, backend_));
  }
  return std::make_unique<CardInstance>(card_, hardware_, layout, precision, std::move(fitted));
}

std::string CardSource::origin() const {
  if (fitted())
    return fmt::format("fitted to measured deployments ({})",
                       backend_.empty() ? "what engines have in common" : backend_);
  return fmt::format("a roofline at {:g} % of bandwidth, {:g} % of arithmetic, {:g} us a layer, not fitted",
                     100 * kBandwidthShare, 100 * kGemmShare, 1e6 * kLayerS);
}

}  // namespace weir::plan
