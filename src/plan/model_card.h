// ModelCard: what planning needs to know of a model, without its weights: its spec and the bytes of its tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/model_spec.h"

namespace weir::plan {

// What a tensor is for: decides how it is split over devices and how often a step reads it.
enum class TensorRole { kEmbedding, kAttention, kFfn, kExperts, kSharedExpert, kRouter, kNorm, kHead };

struct CardTensor {
  std::string name;  // without layer and number: "attn_q", "ffn_up", "attn_q.bias"
  TensorRole role = TensorRole::kFfn;
  int layer = -1;                                 // -1: belongs to none
  std::int64_t rows = 0, columns = 0, count = 1;  // count > 1: experts
  std::int64_t elements() const { return rows * columns * count; }
};

// How weights are kept, by what they are for. Matrices without experts: attention, dense FFN, shared expert.
struct WeightTypes {
  double linear_bits = 16, expert_bits = 16, embedding_bits = 16, head_bits = 16;  // a weight, scales included
  std::string name = "bf16";
  double compute_bits = 16;  // of the operands of quantised matrices' products: 16 where only weights are quantised
  bool integer = false;      // those operands are integers
  // Of the operands of a product with weights of `stored` bits.
  double operand_bits(double stored) const { return stored < 16 ? compute_bits : stored < 32 ? 16 : 32; }
  double bits(const CardTensor& tensor) const;  // vectors and routers stay at 16 (32 among F32 weights)
};

struct ModelCard {
  std::string name;
  load::ModelSpec spec;
  std::vector<CardTensor> tensors;
  WeightTypes types;         // as the files have them; a plan may ask for others
  bool exact_bytes = false;  // weight_bytes was counted from files
  std::int64_t weight_bytes = 0;
  std::string note;  // where weir has no such family: as which one it was read, and what that leaves out

  double parameters() const;                        // all
  double active_parameters() const;                 // that one token meets, without the embedding table
  double bytes_as(const WeightTypes& types) const;  // of all weights
};

// `model`: a Hugging Face folder (with weights or only a config.json), a config.json, a GGUF file, or the name of a
// known model ("Llama-3.1-70B", "deepseek-ai/DeepSeek-V3", "nvidia/Qwen3-32B-NVFP4": known_models()). A type in the
// name sets `types`. Errors: kNotFound with the nearest known names; kCorruptFile or kUnsupported naming the key that
// is missing or wrong.
Result<ModelCard> read_model_card(const std::string& model);

std::vector<std::string> known_models();

// "bf16", "fp8", "int8", "nvfp4", "mxfp4", "q4_k_m", "int4" ...: kInvalidArgument lists all.
Result<WeightTypes> parse_weight_types(const std::string& name);

}  // namespace weir::plan
