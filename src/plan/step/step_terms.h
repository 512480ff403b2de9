// The terms of a step: the physical lower bounds and counts that the time of a forward pass is a sum of, each to be
// multiplied by a coefficient fitted to measurements (silicon/). Milliseconds with coefficient 1 unless said otherwise.
//
// Reading weights, experts and KV at the memory's bandwidth; arithmetic at the peak of the operands' type; sums between
// devices at the link's rate; and fixed costs per step, layer, sequence and request.
#pragma once

#include <array>
#include <string_view>

#include "plan/hardware.h"
#include "plan/parallel_layout.h"
#include "plan/step/step_facts.h"
#include "plan/step_model.h"

namespace weir::plan {

enum Term : int {
  kTermDense,             // bytes of attention, dense FFN, shared experts and head over bandwidth
  kTermExperts,           // bytes of the experts that the rows choose, expected, over bandwidth
  kTermKv,                // bytes of keys and values over bandwidth
  kTermLayer,             // 10 us per layer
  kTermSparseLayer,       // 10 us per layer with experts
  kTermStep,              // 1 ms
  kTermSequence,          // 10 us per sequence
  kTermGroupSequence,     // 10 us per sequence of one attention group, where there are several
  kTermExchange,          // 1 us per exchange between devices, two per layer
  kTermExchangeDoubling,  // 1 us per exchange and doubling of the devices
  kTermDecodeBytes,       // bytes of decode rows' exchanges over the link
  kTermDecodeMath,        // arithmetic of decode rows with weights over the peak
  kTermDecodeAttention,   // arithmetic of decoding from latents over the BF16 peak
  kTermPrefillMath,
  kTermPrefillAttention,
  kTermPrefillBytes,
  kTermRequest,  // 1 ms per sequence that is prefilled
  kTermToken,    // 1 us per row that is prefilled
  kTerms,
};
using StepTerms = std::array<double, kTerms>;

std::string_view term_name(int term);
// What the terms' efficiencies have in common: 0 memory, 1 latency and overhead, 2 arithmetic, 3 exchanges.
int term_kind(int term);
constexpr int kTermKinds = 4;
bool is_prefill_term(int term);

struct StepBits {
  double linear = 16, experts = 16, kv = 16;  // as stored
  // Of the operands of their products (Hardware::peak_tflops); 0: as narrow as what is stored.
  double linear_operands = 0, expert_operands = 0;
  bool integer = false;
};
StepBits step_bits(const WeightTypes& types, double kv_bits);

// `sequences` may be a mean: StepShape counts whole ones.
struct StepLoad {
  double sequences = 0;          // that decode
  double context = 0;            // mean positions that each sees
  double rows_per_sequence = 1;  // above 1: drafted tokens are verified beside the last one
  double prompts = 0;            // sequences that compute rows of their prompt
  double prompt_tokens = 0, prompt_pairs = 0;
};
StepLoad load_of(const StepShape& shape);

// `floor_ms`: what no such pass can go below whatever its kernels: the weights and KV it reads at full bandwidth, or
// its arithmetic at the operands' full peak, whichever takes longer.
StepTerms step_terms(const StepFacts& facts, const Hardware& hardware, const ParallelLayout& layout,
                     const StepBits& bits, const StepLoad& load, double* floor_ms = nullptr);

// What a device holds of weights, and of the KV of one sequence of `tokens` positions.
struct StepBytes {
  double weights = 0, sequence = 0;
};
StepBytes device_bytes(const StepFacts& facts, const ParallelLayout& layout, const StepBits& bits, double tokens);

// Sequences of `tokens` positions that the memory beside the weights holds, over all attention groups; at least one:
// whether that one fits is asked before (memory.h's check_fits, RowFate::kTooLarge).
double kv_capacity(const StepFacts& facts, const Hardware& hardware, const ParallelLayout& layout, const StepBits& bits,
                   double tokens);

}  // namespace weir::plan
