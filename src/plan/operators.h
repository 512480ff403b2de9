// What one pass computes, reads and sends, operator by operator, on one device of an instance.
//
// A StepShape counts what the instance computes; a device sees its share under the layout (parallel_layout.h). Shares
// are even: sequences over dp, experts' tokens over ep. Times are left to whoever has efficiencies; floor_s() is what
// no efficiency can go below. Sums over stages: a pass goes through all of them one after the other.
//
// Counted: matrix products 2 m n k; attention 2 per pair of query and key and dimension for scores and for values,
// causal (no masked pairs). Weights are read once a pass, of experts those that are expected to be chosen under even
// routing. KV is read once per sequence for prefill and for decoding.
//
// Engines expand latents for prefill and absorb them for decoding; weir absorbs always (`absorbed_prefill`).
#pragma once

#include <string>
#include <vector>

#include "plan/hardware.h"
#include "plan/model_card.h"
#include "plan/parallel_layout.h"
#include "plan/step_model.h"

namespace weir::plan {

enum class OperatorKind {
  kGemm,
  kGroupedGemm,       // experts
  kPrefillAttention,  // rows of sequences that compute several
  kDecodeAttention,
  kElementwise,  // norms, activations, residual sums, embedding rows: bytes only
  kAllReduce,
  kAllToAll,
  kSend,
};
std::string operator_kind_name(OperatorKind kind);

struct Operator {
  std::string name;  // "attn_qkv", "ffn_down", "attention", "experts_up"
  OperatorKind kind = OperatorKind::kGemm;
  double repeats = 1;  // layers that have it
  // Of one repeat on one device.
  double flops = 0;
  double weight_bytes = 0, kv_bytes = 0, activation_bytes = 0;
  double message_bytes = 0;               // that the device sends (all-reduce: the whole vector that is summed)
  int participants = 1;                   // of a collective
  double m = 0, n = 0, k = 0;             // of a product; of experts: rows per expert
  double groups = 1;                      // experts whose weights are read
  double compute_bits = 16;               // of its operands
  bool integer = false;                   // they are integers
  double attended = 0, context_read = 0;  // of attention: pairs, and entries of one KV head read

  double bytes() const { return weight_bytes + kv_bytes + activation_bytes; }
  double intensity() const { return bytes() > 0 ? flops / bytes() : 0; }
};

struct OperatorOptions {
  ParallelLayout layout;
  WeightTypes types;  // usually the card's own
  double kv_bits = 16, activation_bits = 16;
  bool absorbed_prefill = false;
};

// Nothing for an empty shape. CHECKs that the layout's numbers are positive.
std::vector<Operator> operators_of(const ModelCard& card, const StepShape& shape, const OperatorOptions& options);

struct OperatorTotals {
  double flops = 0, weight_bytes = 0, kv_bytes = 0, activation_bytes = 0, message_bytes = 0;
  double bytes() const { return weight_bytes + kv_bytes + activation_bytes; }
};
OperatorTotals totals_of(const std::vector<Operator>& operators);  // repeats included

// Of one repeat: the larger of arithmetic at peak and bytes at full bandwidth; of a collective, bytes over the links of
// a domain (over the network where participants outnumber it), a ring's share of them.
double floor_s(const Operator& one, const Hardware& hardware);
bool compute_bound(const Operator& one, const Hardware& hardware);

// Operations per byte from which a product of such operands is bound by arithmetic.
double ridge_intensity(const Hardware& hardware, double compute_bits, bool integer = false);

// What one layer of attention costs with so many query and KV heads: multiply-adds of a query and a key, score and
// value (twice as many operations), and elements kept of a token. Absorbed latents are attended as they are, expanded
// ones as keys and values.
struct AttentionCost {
  double pair = 0, kept = 0;
};
AttentionCost attention_cost(const load::ModelSpec& spec, load::Mixer mixer, double heads, double kv_heads,
                             bool absorbed);

// Mean over `tokens` draws of `used` of `count` experts: how many different ones.
double distinct_experts(double count, double used, double tokens);

}  // namespace weir::plan
