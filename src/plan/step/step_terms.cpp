#include "plan/step/step_terms.h"

#include <algorithm>
#include <cmath>

#include "plan/operators.h"

namespace weir::plan {
namespace {

struct TermInfo {
  std::string_view name;
  int kind;
};
constexpr std::array<TermInfo, kTerms> kInfo = {{{"dense weights", 0},
                                                 {"experts' weights", 0},
                                                 {"KV", 0},
                                                 {"layer", 1},
                                                 {"sparse layer", 1},
                                                 {"step", 1},
                                                 {"sequence", 1},
                                                 {"sequence of a group", 1},
                                                 {"exchange", 1},
                                                 {"exchange x doublings", 1},
                                                 {"decode exchange bytes", 3},
                                                 {"decode arithmetic", 2},
                                                 {"decode latent attention", 2},
                                                 {"prefill arithmetic", 2},
                                                 {"prefill attention", 2},
                                                 {"prefill exchange bytes", 3},
                                                 {"prefill request", 2},
                                                 {"prefill token", 2}}};

constexpr double kExchangeBits = 16;      // activations are summed in 16 bits
constexpr double kReservedBytes = 2e9;    // CUDA context, activations, graphs
constexpr double kMemoryFraction = 0.92;  // what engines let weights and KV fill (vLLM's and TensorRT-LLM's 0.9)

double peak_flops(const Hardware& hardware, double stored, double operands, bool integer) {
  if (operands <= 0) operands = stored <= 5 ? 4 : stored <= 8.5 ? 8 : 16;
  return std::max(hardware.peak_tflops(operands, integer && operands <= 8), 1e-3) * 1e12;
}

// What narrower types lose, from the operator tables (op_gemm.csv, matrices of 20 M weights and more): memory-bound
// products reach 0.66 to 0.79 of the bandwidth in BF16 and 0.43 to 0.62 in FP8, arithmetic-bound ones 0.70 to 0.80 of
// the peak in BF16 and 0.45 to 0.54 in FP8. As powers of 16 / bits, relative to 16 bits.
double memory_loss(double bits) {
  return std::pow(16 / std::min(16.0, bits), 0.4);
}
double arithmetic_loss(double bits) {
  return std::pow(16 / std::min(16.0, bits), 0.7);
}

double seconds(double amount, double rate) {
  return rate > 0 ? amount / rate : 0;
}

// Bytes per second and direction: the domain's links, or the network where the devices outnumber a domain.
double link_rate(const Hardware& hardware, const ParallelLayout& layout) {
  const bool network = layout.stage_devices() > hardware.domain && hardware.nic_gbit > 0;
  const double inside = hardware.link_gbs > 0 ? hardware.link_gbs : hardware.pcie_gbs;
  return std::max(1.0, network ? hardware.nic_gbit / 8 : inside) * 1e9;
}

// All-reduce over tp devices moves each row 2 (tp - 1) / tp times, two times a layer; with attention groups the rows
// go to the devices of their experts and back instead, in 12 bits on the mean of both ways.
double exchange_bytes(const StepFacts& f, const ParallelLayout& layout, double rows_of_group) {
  double bytes = 0;
  const double tp = layout.tp, devices = layout.stage_devices();
  if (layout.tp > 1) bytes += 2 * f.layers * rows_of_group * f.hidden * kExchangeBits / 8 * 2 * (tp - 1) / tp;
  if (layout.dp > 1 && f.experts > 0)
    bytes +=
        2 * f.layers * rows_of_group * f.hidden * std::min(f.experts_used, devices) * 1.5 * (devices - 1) / devices;
  return bytes;
}

}  // namespace

std::string_view term_name(int term) {
  return kInfo[static_cast<std::size_t>(term)].name;
}
int term_kind(int term) {
  return kInfo[static_cast<std::size_t>(term)].kind;
}
bool is_prefill_term(int term) {
  return term >= kTermPrefillMath;
}

StepLoad load_of(const StepShape& shape) {
  StepLoad load;
  load.sequences = static_cast<double>(shape.decode_tokens);
  load.context = load.sequences > 0 ? shape.decode_attended / load.sequences : 0;
  load.prompts = static_cast<double>(shape.sequences - shape.decode_tokens);
  load.prompt_tokens = static_cast<double>(shape.tokens - shape.decode_tokens);
  load.prompt_pairs = shape.attended - shape.decode_attended;
  return load;
}

StepBits step_bits(const WeightTypes& types, double kv_bits) {
  return {types.linear_bits,
          types.expert_bits,
          kv_bits,
          types.operand_bits(types.linear_bits),
          types.operand_bits(types.expert_bits),
          types.integer};
}

StepTerms step_terms(const StepFacts& f, const Hardware& hardware, const ParallelLayout& layout, const StepBits& bits,
                     const StepLoad& load, double* floor_ms) {
  StepTerms terms{};
  const double tp = layout.tp, dp = layout.dp, devices = layout.stage_devices();
  const double bandwidth = hardware.bandwidth_gbs * 1e9, link = link_rate(hardware, layout);
  const double dense_weights = f.attention_weights + f.ffn_weights;
  const double used_weights = f.experts > 0 ? f.expert_weights * f.experts_used / f.experts : 0;
  const double group = std::max(load.sequences / dp, load.sequences > 0 ? 1.0 : 0.0);  // of one attention group
  const double decode_rows = load.sequences * load.rows_per_sequence, group_rows = group * load.rows_per_sequence;
  const double rows = decode_rows + load.prompt_tokens;
  terms[kTermDense] =
      1e3 * memory_loss(bits.linear) * seconds((dense_weights * bits.linear + f.head_weights * 16) / 8 / tp, bandwidth);
  if (f.experts > 0 && rows > 0) {
    const double chosen = distinct_experts(f.experts, f.experts_used, std::max(1.0, rows)) / f.experts;
    terms[kTermExperts] =
        1e3 * memory_loss(bits.experts) * seconds(chosen * f.expert_weights * bits.experts / 8 / devices, bandwidth);
  }
  const double kv_share = f.latent ? 1 : std::min(tp, f.kv_heads);
  const double windowed = f.window_layers > 0 ? f.window_layers * std::min(load.context, f.window) : 0;
  terms[kTermKv] = 1e3 * seconds(group * (load.context * f.full_layers + windowed) * f.kv_elements * bits.kv / 8 /
                                     kv_share / layout.cp,
                                 bandwidth);
  terms[kTermLayer] = 1e-2 * f.layers;
  terms[kTermSparseLayer] = 1e-2 * f.sparse_layers;
  terms[kTermStep] = 1;
  terms[kTermSequence] = 1e-2 * group;  // every group has a scheduler of its own
  if (layout.dp > 1) terms[kTermGroupSequence] = 1e-2 * group;
  if (devices > 1) {
    terms[kTermExchange] = 2e-3 * f.layers;
    terms[kTermExchangeDoubling] = 2e-3 * f.layers * std::log2(devices);
  }
  terms[kTermDecodeBytes] = 1e3 * seconds(exchange_bytes(f, layout, group_rows), link);
  // At the full peak; the head's operands are counted with the others'.
  const double linear_peak = peak_flops(hardware, bits.linear, bits.linear_operands, bits.integer);
  const double expert_peak = peak_flops(hardware, bits.experts, bits.expert_operands, bits.integer);
  const double attention_peak = peak_flops(hardware, 16, 16, false);
  const double linear_loss = arithmetic_loss(bits.linear), expert_loss = arithmetic_loss(bits.experts);
  const double decode_linear = 1e3 * 2 * group_rows * (dense_weights + f.head_weights) / tp / linear_peak;
  const double decode_experts = 1e3 * 2 * decode_rows * used_weights / devices / expert_peak;
  const double prompt_linear = 1e3 * 2 * load.prompt_tokens * dense_weights / devices / linear_peak;
  const double prompt_experts = 1e3 * 2 * load.prompt_tokens * used_weights / devices / expert_peak;
  terms[kTermDecodeMath] = decode_linear * linear_loss + decode_experts * expert_loss;
  terms[kTermDecodeAttention] =
      1e3 * 2 * group_rows * load.context * f.full_layers * f.decode_pair / tp / attention_peak;
  terms[kTermPrefillMath] = prompt_linear * linear_loss + prompt_experts * expert_loss;
  terms[kTermPrefillAttention] =
      1e3 * 2 * load.prompt_pairs * f.full_layers * f.prefill_pair / devices / attention_peak;
  if (floor_ms != nullptr) {
    // The head is read for rows that need logits; those of prompts may not.
    const double head = load.sequences > 0 ? 0 : 1e3 * seconds(f.head_weights * 16 / 8 / tp, bandwidth);
    const double read = terms[kTermDense] / memory_loss(bits.linear) - head +
                        terms[kTermExperts] / memory_loss(bits.experts) + terms[kTermKv];
    const double computed = decode_linear + decode_experts + prompt_linear + prompt_experts +
                            terms[kTermDecodeAttention] + terms[kTermPrefillAttention];
    *floor_ms = std::max(read, computed);
  }
  terms[kTermPrefillBytes] = 1e3 * seconds(exchange_bytes(f, layout, load.prompt_tokens / dp), link);
  terms[kTermRequest] = load.prompts;
  terms[kTermToken] = 1e-3 * load.prompt_tokens;
  return terms;
}

StepBytes device_bytes(const StepFacts& f, const ParallelLayout& layout, const StepBits& bits, double tokens) {
  const double dense = (f.attention_weights + f.ffn_weights) * bits.linear / 8 + f.head_weights * 2;
  const double weights = dense / layout.tp + f.expert_weights * bits.experts / 8 / layout.stage_devices();
  const double share = f.latent ? 1 : std::min<double>(layout.tp, f.kv_heads);
  return {weights / layout.pp,
          f.kv_elements * f.full_layers * bits.kv / 8 * std::max(1.0, tokens) / share / layout.pp / layout.cp};
}

double kv_capacity(const StepFacts& f, const Hardware& hardware, const ParallelLayout& layout, const StepBits& bits,
                   double tokens) {
  const StepBytes bytes = device_bytes(f, layout, bits, tokens);
  const double room = hardware.memory_bytes * kMemoryFraction - bytes.weights - kReservedBytes;
  return std::max(1.0, bytes.sequence > 0 ? room / bytes.sequence : 1e9) * layout.dp;
}

}  // namespace weir::plan
