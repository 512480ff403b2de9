// What an instance takes of a device's memory: weights, workspace, KV, and how many tokens and sequences that leaves.
//
// KV is counted by the engine's own layout (kv/kv_layout.h) of a device's streams: block sizes, groups, windows, state
// blocks, unused bytes are those of an allocation. Figures are of the device that holds most (stages are cut into
// equal numbers of layers, the embedding table with the first, the head with the last).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/kv_layout.h"
#include "plan/hardware.h"
#include "plan/model_card.h"
#include "plan/parallel_layout.h"

namespace weir::plan {

struct MemoryOptions {
  ParallelLayout layout;
  WeightTypes types;
  double kv_bits = 16;
  int block_tokens = 16;
  std::int64_t step_tokens = 8192;  // most rows of a pass
  std::int64_t sequences = 256;     // most that sample in a pass
  double memory_share = 0.9;        // of a device's memory that serving may use (vLLM's default)
  double reserved_bytes = -1;       // beside: runtime, communication; -1: reserved_bytes_for()
};

// What a runtime and its collectives keep: 0.5 GiB, and for 2, 4 or more devices the 342 to 392 MiB of NCCL buffers
// that aiconfigurator's system files (@095f58a) measured. CPUs: none.
double reserved_bytes_for(const Hardware& hardware, int devices);

// Of one device.
struct WeightTerms {
  double embedding = 0, attention = 0, ffn = 0, experts = 0, shared = 0, head = 0, other = 0;
  double total() const { return embedding + attention + ffn + experts + shared + head + other; }
};

struct MemoryUse {
  double memory_bytes = 0, usable_bytes = 0;
  WeightTerms weights;
  double workspace_bytes = 0, reserved_bytes = 0;
  double kv_pool_bytes = 0;             // what is left; below 0: it does not fit
  kv::KvLayout kv_layout;               // of the device's streams, in 16 bits; empty groups: it keeps no KV
  double block_bytes = 0;               // in kv_bits
  double kv_bytes_per_token = 0;        // of this device, as its blocks really hold it, no window passed
  double state_bytes_per_sequence = 0;  // in whole blocks
  std::int64_t blocks = 0;
  std::int64_t step_tokens = 0;
  int copies = 1, context_parts = 1;  // dp, cp: tokens of the whole instance are so many times those of a device

  // Tokens of the whole instance that one long sequence's blocks could hold; 0: not one.
  std::int64_t longest_context() const;
  // Sequences of `tokens` tokens each that fit at once, over all dp groups.
  std::int64_t sequences_of(std::int64_t tokens) const;
  // All tokens of sequences of `tokens` tokens.
  std::int64_t kv_tokens(std::int64_t tokens) const { return sequences_of(tokens) * tokens; }
};

// Whether the layout can be: degrees against heads, layers, experts. kInvalidArgument with both numbers.
Status check_layout(const ModelCard& card, const ParallelLayout& layout);

// Whether its devices can reach each other: links or PCIe in a domain, a network beyond. kUnsupported naming the field.
Status check_links(const Hardware& hardware, const ParallelLayout& layout);

// Never refuses for size: the pool may come out negative. Errors: check_layout's.
Result<MemoryUse> memory_use(const ModelCard& card, const Hardware& hardware, const MemoryOptions& options);

// kInvalidArgument where weights, workspace or one sequence of `tokens` tokens is too much, naming the term, all
// figures, and the number of devices from which it would fit by tensor parallelism.
Status check_fits(const ModelCard& card, const Hardware& hardware, const MemoryOptions& options,
                  const MemoryUse& memory, std::int64_t tokens);

// KV of one token over the whole model, by kind, in bytes of `kv_bits`.
struct KvCost {
  double full = 0, windowed = 0, latent = 0, indexer = 0;  // windowed: as long as no window has passed
  double state_bytes = 0;                                  // of a sequence
  double per_token() const { return full + windowed + latent + indexer; }
  double per_token_beyond_windows() const { return full + latent + indexer; }
  std::string kind;  // "GQA: 64 query heads, 8 KV heads of 128"
};
KvCost kv_cost(const ModelCard& card, double kv_bits);

// Of a sequence of `tokens` tokens, windows passed, state included, without blocks.
double sequence_kv_bytes(const ModelCard& card, double kv_bits, std::int64_t tokens);

// Bytes of KV of a sequence: exactly its tokens' own, and as whole blocks of all groups.
struct KvWaste {
  int block_tokens = 0;
  double held_bytes = 0, used_bytes = 0;
  double waste() const { return held_bytes > 0 ? 1 - used_bytes / held_bytes : 0; }
};
// Mean over sequences whose lengths spread evenly over one block around `tokens`.
KvWaste internal_waste(const ModelCard& card, double kv_bits, int block_tokens, std::int64_t tokens);

}  // namespace weir::plan
