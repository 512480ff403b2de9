#include "plan/memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "load/kv_streams.h"

namespace weir::plan {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kRuntimeBytes = 512 * kMiB;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;

double ceil_div(double a, double b) {
  return std::ceil(a / b);
}

// The part of a tensor that a device holds.
double share_of(const CardTensor& tensor, const load::ModelSpec& spec, const ParallelLayout& layout) {
  const auto elements = static_cast<double>(tensor.elements());
  const double tp = layout.tp;
  switch (tensor.role) {
    case TensorRole::kNorm:
    case TensorRole::kRouter:
      return elements;
    case TensorRole::kExperts:
      return ceil_div(static_cast<double>(tensor.count), layout.ep) *
             static_cast<double>(tensor.rows * tensor.columns) / layout.expert_tp();
    case TensorRole::kAttention: {
      const std::string& name = tensor.name;
      if (name.starts_with("attn_k_b") || name.starts_with("attn_v_b")) return elements / tp;
      if (name.starts_with("attn_k.") || name == "attn_k" || name.starts_with("attn_v.") || name == "attn_v")
        return elements * ceil_div(spec.kv_heads, tp) / spec.kv_heads;
      if (name.starts_with("attn_q_a") || name.starts_with("attn_kv_a") || name.starts_with("indexer")) return elements;
      return elements / tp;
    }
    default:
      return elements / tp;
  }
}

double& term_of(TensorRole role, WeightTerms& weights) {
  switch (role) {
    case TensorRole::kEmbedding:
      return weights.embedding;
    case TensorRole::kAttention:
      return weights.attention;
    case TensorRole::kFfn:
      return weights.ffn;
    case TensorRole::kExperts:
      return weights.experts;
    case TensorRole::kSharedExpert:
      return weights.shared;
    case TensorRole::kHead:
      return weights.head;
    default:
      return weights.other;
  }
}

// Stage of a layer, when they are cut into equal numbers, the earlier ones a layer more.
int stage_of(int layer, int layers, int stages) {
  const int base = layers / stages, more = layers % stages;
  const int border = more * (base + 1);
  return layer < border ? layer / (base + 1) : more + (layer - border) / std::max(base, 1);
}

// The stage's layers as a model of their own, with a device's KV heads.
load::ModelSpec stage_spec(const load::ModelSpec& spec, const ParallelLayout& layout, int stage) {
  load::ModelSpec part = spec;
  part.layer.clear();
  for (int i = 0; i < spec.layers; ++i) {
    if (stage_of(i, spec.layers, layout.pp) == stage) part.layer.push_back(spec.layer[static_cast<std::size_t>(i)]);
  }
  part.kv_heads = static_cast<int>(ceil_div(spec.kv_heads, layout.tp));
  part.delta.value_heads = static_cast<int>(ceil_div(spec.delta.value_heads, layout.tp));
  part.delta.key_heads = static_cast<int>(ceil_div(spec.delta.key_heads, layout.tp));
  return part;
}

std::vector<kv::KvStream> streams_of(const load::ModelSpec& spec) {
  std::vector<kv::KvStream> streams;
  for (const load::KvStream& one : load::kv_streams(spec))
    streams.push_back({one.window, one.heads, one.key_dim, one.value_dim});
  return streams;
}

// The engine's layout, whose streams may have any width: F16 rows have no blocks to fill.
kv::KvLayout layout_of(const load::ModelSpec& spec, double kv_bits, int block_tokens) {
  const auto streams = streams_of(spec);
  if (streams.empty()) return {.block_tokens = block_tokens};
  // State is F32 whatever the KV's type: as many blocks of `kv_bits` as it takes.
  const auto state = static_cast<std::int64_t>(std::ceil(static_cast<double>(load::state_bytes(spec)) * 16 / kv_bits));
  return kv::plan_layout(streams, tensor::DType::kF16, block_tokens, state);
}

double bytes_of_all_groups(const kv::KvLayout& layout) {
  return static_cast<double>(layout.groups.size()) * static_cast<double>(layout.block_bytes) / layout.block_tokens;
}

// Activations of a full pass in 16 bits: the residual stream, its normed copy, and what the widest layer computes of
// them, in and out; the logits of the rows that sample, in 32.
double workspace_bytes(const load::ModelSpec& spec, const MemoryOptions& options) {
  const ParallelLayout& layout = options.layout;
  const double tp = layout.tp;
  double widest = 0;
  const double heads = ceil_div(spec.heads, tp);
  for (const load::LayerSpec& layer : spec.layer) {
    double attention = 0;
    if (layer.mixer == load::Mixer::kAttention) {
      attention = (2 * heads + 2 * ceil_div(spec.kv_heads, tp)) * spec.head_dim;
    } else if (layer.mixer == load::Mixer::kLatent) {
      attention = 2 * heads * spec.head_dim + spec.latent.query_rank + spec.latent.rank;
    } else {
      attention = (2.0 * spec.delta.conv_width() + 2.0 * spec.delta.value_heads * spec.delta.value_dim) / tp;
    }
    const double ffn = layer.sparse ? 3.0 * spec.experts.used * spec.experts.ffn / layout.expert_tp() / layout.ep +
                                          static_cast<double>(spec.experts.used) / layout.ep * spec.hidden
                                    : 3 * ceil_div(spec.ffn, tp);
    widest = std::max({widest, attention, ffn});
  }
  const auto rows = static_cast<double>(options.step_tokens);
  const auto samples = static_cast<double>(std::min(options.sequences, options.step_tokens));
  return rows * 2 * (2.0 * spec.hidden + widest) + samples * 4 * ceil_div(spec.vocab, tp);
}

std::string gb(double bytes) {
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string all_terms(const MemoryUse& memory) {
  return fmt::format("usable {} of {}; weights {}, workspace {}, runtime {}", gb(memory.usable_bytes),
                     gb(memory.memory_bytes), gb(memory.weights.total()), gb(memory.workspace_bytes),
                     gb(memory.reserved_bytes));
}

std::string advice(const ModelCard& card, const Hardware& hardware, const MemoryOptions& options, std::int64_t tokens) {
  MemoryOptions wider = options;
  for (wider.layout.tp = options.layout.tp * 2; wider.layout.tp <= card.spec.heads; wider.layout.tp *= 2) {
    const bool spread = options.layout.ep > 1 && options.layout.ep == options.layout.stage_devices();
    wider.layout.ep = spread ? wider.layout.stage_devices() : options.layout.ep;
    const auto memory = memory_use(card, hardware, wider);
    if (memory && memory->sequences_of(tokens) >= 1)
      return fmt::format("it would fit from {} on ({} devices)", wider.layout.name(), wider.layout.devices());
  }
  return "no tensor parallelism makes it fit: more stages (PP), smaller weights or KV types would";
}

}  // namespace

double reserved_bytes_for(const Hardware& hardware, int devices) {
  if (hardware.kind == "cpu") return 0;
  return kRuntimeBytes + (devices >= 4 ? 392 * kMiB : devices >= 2 ? 342 * kMiB : 0);
}

Status check_layout(const ModelCard& card, const ParallelLayout& layout) {
  const load::ModelSpec& spec = card.spec;
  for (const auto& [name, value] : {std::pair{"TP", layout.tp}, std::pair{"PP", layout.pp}, std::pair{"DP", layout.dp},
                                    std::pair{"EP", layout.ep}, std::pair{"CP", layout.cp}}) {
    if (value < 1 || value > 4096)
      return fail(ErrorCode::kInvalidArgument, "{} is {}; a number from 1 to 4096 expected", name, value);
  }
  if (spec.heads % layout.tp != 0) {
    return fail(ErrorCode::kInvalidArgument, "TP {} does not divide the {} attention heads of {}", layout.tp,
                spec.heads, card.name);
  }
  if (layout.pp > spec.layers)
    return fail(ErrorCode::kInvalidArgument, "PP {} is more than the {} layers of {}", layout.pp, spec.layers,
                card.name);
  if (layout.ep > 1 && spec.experts.count == 0)
    return fail(ErrorCode::kInvalidArgument, "EP {}, but {} has no experts", layout.ep, card.name);
  if (static_cast<std::int64_t>(layout.tp) * layout.dp * layout.cp % layout.ep != 0) {
    return fail(ErrorCode::kInvalidArgument, "EP {} does not divide the {} devices of a stage (TP x DP x CP)",
                layout.ep, layout.stage_devices());
  }
  if (layout.ep > spec.experts.count && layout.ep > 1) {
    return fail(ErrorCode::kInvalidArgument, "EP {} is more than the {} experts of {}", layout.ep, spec.experts.count,
                card.name);
  }
  return {};
}

std::int64_t MemoryUse::longest_context() const {
  if (blocks <= 0) return 0;
  std::int64_t low = 0, high = kMaxTokens;  // the pool holds `low`, not `high`
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    if (kv_layout.blocks_needed(middle, step_tokens) <= blocks) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low > kMaxTokens / 2 ? low : low * context_parts;
}

std::int64_t MemoryUse::sequences_of(std::int64_t tokens) const {
  if (blocks <= 0 || tokens <= 0) return 0;
  const std::int64_t own = (tokens + context_parts - 1) / context_parts;
  const std::int64_t needed = std::max<std::int64_t>(1, kv_layout.blocks_needed(own, step_tokens));
  return blocks / needed * copies;
}

Result<MemoryUse> memory_use(const ModelCard& card, const Hardware& hardware, const MemoryOptions& options) {
  const ParallelLayout& layout = options.layout;
  WEIR_RETURN_IF_ERROR(check_layout(card, layout));
  if (options.block_tokens < 1 || options.block_tokens > 1 << 20 || !(options.kv_bits >= 1 && options.kv_bits <= 64) ||
      options.step_tokens < 1 || options.step_tokens > kMaxTokens || options.sequences < 1 ||
      !(options.memory_share > 0 && options.memory_share <= 1)) {
    return fail(ErrorCode::kInvalidArgument,
                "blocks of {} tokens, KV of {} bits, passes of {} tokens, {} sequences, {} of the memory: positive "
                "numbers expected, and a share of at most 1",
                options.block_tokens, options.kv_bits, options.step_tokens, options.sequences, options.memory_share);
  }
  MemoryUse most;
  double most_bytes = -1;
  for (int stage = 0; stage < layout.pp; ++stage) {
    MemoryUse memory;
    for (const CardTensor& tensor : card.tensors) {
      const int home = tensor.layer >= 0 ? stage_of(tensor.layer, card.spec.layers, layout.pp)
                       : tensor.role == TensorRole::kEmbedding && stage == 0 ? 0
                                                                             : layout.pp - 1;
      // A tied head is the table once more, on the last stage.
      const bool tied = tensor.role == TensorRole::kEmbedding && card.spec.tied_embeddings && stage == layout.pp - 1;
      if (home != stage && !tied) continue;
      if (tensor.role == TensorRole::kEmbedding && stage != 0 && !tied) continue;
      term_of(tensor.role, memory.weights) += share_of(tensor, card.spec, layout) * options.types.bits(tensor) / 8;
    }
    memory.kv_layout = layout_of(stage_spec(card.spec, layout, stage), options.kv_bits, options.block_tokens);
    const double scale = options.kv_bits / 16;
    memory.block_bytes = static_cast<double>(memory.kv_layout.block_bytes) * scale;
    memory.kv_bytes_per_token = bytes_of_all_groups(memory.kv_layout) * scale;
    memory.state_bytes_per_sequence = static_cast<double>(memory.kv_layout.state_blocks) * memory.block_bytes;
    // What a device of this stage holds beside a typical sequence decides which stage is the tightest.
    const double held = memory.weights.total() + 1e5 * memory.kv_bytes_per_token;
    if (held > most_bytes) {
      most_bytes = held;
      most = std::move(memory);
    }
  }
  most.memory_bytes = hardware.memory_bytes;
  most.usable_bytes = hardware.memory_bytes * options.memory_share;
  most.workspace_bytes = workspace_bytes(card.spec, options);
  most.reserved_bytes =
      options.reserved_bytes >= 0 ? options.reserved_bytes : reserved_bytes_for(hardware, layout.devices());
  most.kv_pool_bytes = most.usable_bytes - most.weights.total() - most.workspace_bytes - most.reserved_bytes;
  most.step_tokens = options.step_tokens;
  most.copies = layout.dp;
  most.context_parts = layout.cp;
  if (most.kv_pool_bytes > 0 && most.block_bytes > 0)
    most.blocks = static_cast<std::int64_t>(std::min(most.kv_pool_bytes / most.block_bytes, 1e15));
  return most;
}

Status check_links(const Hardware& hardware, const ParallelLayout& layout) {
  const int devices = layout.devices();
  if (devices > 1 && hardware.link_gbs <= 0 && hardware.pcie_gbs <= 0) {
    return fail(ErrorCode::kUnsupported,
                "{}: {} devices of an instance, and no link between them is known: give link_gbs_per_dir or "
                "pcie_gbs_per_dir",
                hardware.name, devices);
  }
  if (devices > hardware.domain && hardware.nic_gbit <= 0) {
    return fail(ErrorCode::kUnsupported,
                "{}: {} devices are more than the {} of a domain, and no network is known: give nic_gbit_per_device or "
                "domain",
                hardware.name, devices, hardware.domain);
  }
  return {};
}

Status check_fits(const ModelCard& card, const Hardware& hardware, const MemoryOptions& options,
                  const MemoryUse& memory, std::int64_t tokens) {
  const double weights = memory.weights.total(), fixed = weights + memory.reserved_bytes;
  const char* term = nullptr;
  double needed = 0, left = 0;
  if (weights > memory.usable_bytes) {
    term = "weights";
    needed = weights;
    left = memory.usable_bytes;
  } else if (fixed + memory.workspace_bytes > memory.usable_bytes) {
    term = "workspace of a pass";
    needed = memory.workspace_bytes;
    left = memory.usable_bytes - fixed;
  } else if (memory.sequences_of(tokens) < 1) {
    return fail(
        ErrorCode::kInvalidArgument,
        "{} on {} as {}: the KV of one sequence of {} tokens does not fit: {} blocks of {} tokens are there, "
        "{} are needed; the longest context is {} tokens ({}); {}",
        card.name, hardware.name, options.layout.name(), tokens, memory.blocks, options.block_tokens,
        memory.kv_layout.blocks_needed((tokens + memory.context_parts - 1) / memory.context_parts, memory.step_tokens),
        memory.longest_context(), all_terms(memory), advice(card, hardware, options, tokens));
  } else {
    return {};
  }
  return fail(ErrorCode::kInvalidArgument, "{} on {} as {}: the {} do not fit: {} a device needed, {} left ({}); {}",
              card.name, hardware.name, options.layout.name(), term, gb(needed), gb(left), all_terms(memory),
              advice(card, hardware, options, tokens));
}

KvCost kv_cost(const ModelCard& card, double kv_bits) {
  KvCost cost;
  const load::ModelSpec& spec = card.spec;
  bool plain = false;
  for (const load::KvStream& stream : load::kv_streams(spec)) {
    const double bytes = static_cast<double>(stream.stored_elements()) * kv_bits / 8;
    const bool latent = spec.layer[static_cast<std::size_t>(stream.layer)].mixer == load::Mixer::kLatent;
    plain = plain || !latent;
    (stream.role == load::KvStream::Role::kIndex ? cost.indexer
     : latent                                    ? cost.latent
     : stream.window > 0                         ? cost.windowed
                                                 : cost.full) += bytes;
  }
  cost.state_bytes = static_cast<double>(load::state_bytes(spec));
  if (plain) {
    const char* name = spec.kv_heads == spec.heads ? "MHA" : spec.kv_heads == 1 ? "MQA" : "GQA";
    cost.kind = fmt::format("{}: {} query heads, {} KV heads of {}", name, spec.heads, spec.kv_heads, spec.head_dim);
  } else {
    cost.kind = fmt::format("MLA: latents of {} and rotated keys of {}", spec.latent.rank, spec.latent.rope_dim);
  }
  if (cost.windowed > 0) cost.kind += ", sliding windows";
  if (cost.indexer > 0) cost.kind += fmt::format(", indexer keys of {}", spec.indexer.head_dim);
  if (cost.state_bytes > 0) cost.kind += ", recurrent state";
  return cost;
}

double sequence_kv_bytes(const ModelCard& card, double kv_bits, std::int64_t tokens) {
  auto bytes = static_cast<double>(load::state_bytes(card.spec));
  for (const load::KvStream& stream : load::kv_streams(card.spec)) {
    const auto seen = stream.window > 0 ? std::min<std::int64_t>(tokens, stream.window) : tokens;
    bytes += static_cast<double>(stream.stored_elements() * seen) * kv_bits / 8;
  }
  return bytes;
}

KvWaste internal_waste(const ModelCard& card, double kv_bits, int block_tokens, std::int64_t tokens) {
  KvWaste waste{.block_tokens = block_tokens};
  const kv::KvLayout layout = layout_of(card.spec, kv_bits, block_tokens);
  if (layout.groups.empty()) return waste;
  const double block = static_cast<double>(layout.block_bytes) * kv_bits / 16;
  const std::int64_t first = std::max<std::int64_t>(1, tokens - block_tokens / 2);
  for (std::int64_t i = 0; i < block_tokens; ++i) {
    const std::int64_t length = first + i;
    waste.used_bytes += sequence_kv_bytes(card, kv_bits, length) / block_tokens;
    waste.held_bytes += layout.blocks_needed(length, 1) * block / block_tokens;
  }
  return waste;
}

}  // namespace weir::plan
