// ModelSpec: everything the model code must know about a model besides its weights, whatever file it came from.
//
// Filled by load/ from GGUF metadata or a Hugging Face config.json, validated there (every count positive and capped,
// every division exact), then read-only. Sizes are in elements. Optional parts of the maths are spelled out as data
// (qk_norm, post_norms, windows, ropes), so that a family file in model/ only says which parts it uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace weir::load {

// Rotary position embedding (Su et al. 2021) and its context extensions.
struct RopeSpec {
  // Which two elements of a head turn together: (2i, 2i+1), as GGUF's llama converter permutes the weights, or (i, i +
  // dims/2), as Hugging Face stores them. The file decides; mixing them up gives fluent nonsense.
  enum class Pairing { kAdjacent, kHalves };
  enum class Scaling { kNone, kLinear, kLlama3, kYarn };

  Pairing pairing = Pairing::kHalves;
  int dims = 0;  // rotated elements of a head, even; the rest pass through
  double theta = 10000.0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  std::int64_t original_context = 0;                     // llama3, yarn
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn: turns over the original context
  bool yarn_truncate = true;                             // yarn: round the ramp's ends to whole dimensions
  double attention_factor = 0.0;                         // yarn: multiplies cos and sin; 0 = 1 + 0.1 ln(factor)
  std::vector<float> frequency_divisors;                 // dims/2 values or empty: GGUF's rope_freqs.weight
};

enum class Activation { kSilu, kGeluTanh };

struct LayerSpec {
  int window = 0;  // sliding window in tokens, the token itself included; 0 = attends to everything before it
  int rope = 0;    // index into ModelSpec::ropes; -1 = this layer has no position embedding
};

struct ModelSpec {
  std::string family;  // "llama", "qwen2", "qwen3", "gemma3": names the file in model/families
  std::string name;    // for people
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::int64_t context_length = 0;
  float rms_eps = 1e-5f;
  Activation activation = Activation::kSilu;
  bool tied_embeddings = false;     // the output head is the embedding table
  bool qk_norm = false;             // RMSNorm over each head of q and k before RoPE (Qwen 3, Gemma 3)
  bool post_norms = false;          // RMSNorm of what attention and FFN add to the residual (Gemma)
  float norm_weight_offset = 0.0f;  // added to every norm weight while loading (1 for Gemma safetensors)
  float embedding_scale = 1.0f;
  float attention_scale = 0.0f;    // multiplies q·k
  float attention_softcap = 0.0f;  // s -> c tanh(s/c); 0 = off
  float final_softcap = 0.0f;      // of the logits; 0 = off
  std::vector<RopeSpec> ropes;
  std::vector<LayerSpec> layer;  // one per layer

  tensor::DType main_dtype = tensor::DType::kF32;  // the type of most weight bytes; chooses the default KV type
  std::string quantisation;                        // for people: "Q4_K 62 %, Q6_K 38 %"
};

}  // namespace weir::load
