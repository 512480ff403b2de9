// ModelSpec: everything the model code must know about a model besides its weights, whatever file it came from.
//
// Filled by a family (families/) from GGUF metadata or a Hugging Face config.json, validated (every count positive and
// capped, every division exact), then read-only. Sizes are in elements. What distinguishes families is spelled out as
// data: model/ composes one decoder from it.
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
  enum class Scaling { kNone, kLinear, kLlama3, kYarn, kLong };

  Pairing pairing = Pairing::kHalves;
  int dims = 0;  // rotated elements of a head, even; the rest pass through
  double theta = 10000.0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  std::int64_t original_context = 0;                     // llama3, yarn, long
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn: turns over the original context
  bool yarn_truncate = true;                             // yarn: round the ramp's ends to whole dimensions
  double attention_factor = 0.0;                         // yarn, long: multiplies cos and sin; 0 = 1 + 0.1 ln(factor)
  std::vector<float> frequency_divisors;                 // dims/2 values or empty: GGUF's rope_freqs.weight
  // long (LongRoPE, Ding et al. 2024): a sequence longer than original_context turns by other divisors, from its first
  // token on.
  std::vector<float> long_divisors;
  // Queries grow with their position, times 1 + growth ln(1 + floor(position / original_context)) (Ministral 3), which
  // multiplies cos and sin. Of rotations of whole heads that only queries take; 0 = off.
  double growth = 0.0;
};

// kClampedSwiglu (gpt-oss): gate = min(gate, limit), up = clamp(up, +-limit), (up + 1) * gate * sigmoid(alpha gate)
enum class Activation { kSilu, kGeluTanh, kClampedSwiglu };

enum class NormKind { kRms, kLayer };  // kLayer: LayerNorm without bias (Cohere)

// RMSNorm of q and k: of every head with one weight, before RoPE or after it (Hunyuan), or of the whole projection.
enum class QkNorm { kNone, kHead, kTurnedHead, kWidth };

// What mixes tokens in a layer.
enum class Mixer { kAttention, kLatent, kDelta };

struct LayerSpec {
  int window = 0;       // sliding window in tokens, the token itself included; 0 = attends to everything before it
  int rope = 0;         // index into ModelSpec::ropes; -1 = this layer has no position embedding
  int query_rope = -1;  // the same of queries, where theirs is another; -1 = it is not
  Mixer mixer = Mixer::kAttention;
  bool sparse = false;  // the feed-forward part is a mixture of experts
};

// Multi-head latent attention (DeepSeek V2): what is kept of a token is one latent and one rotated part of a key, from
// which every head makes its own keys and values.
struct LatentSpec {
  int query_rank = 0;  // of the compressed query; 0 = queries come straight from the hidden state
  int rank = 0;        // of the latent
  int plain_dim = 0, rope_dim = 0, value_dim = 0;  // of a head: unrotated and rotated part of a key, value
  float norm_eps = 1e-6f;                          // of the norms of the latents
};

// DeepSeek sparse attention (V3.2): a small scorer chooses the positions that a query attends to.
struct IndexerSpec {
  int heads = 0, head_dim = 0;
  int positions = 0;  // chosen, at most
  int rope = 0;       // index into ModelSpec::ropes; turns the first elements of a head
};

// Gated delta net (Yang et al. 2024): a matrix per value head that every token changes, after a short convolution.
struct DeltaSpec {
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int taps = 0;            // of the convolution
  bool log_decay = false;  // the file's decay a stands for -exp(a)
  bool tiled = false;      // value head h uses key head h mod key_heads, else h / (value_heads / key_heads)

  int conv_width() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
  // What a layer keeps of a sequence, in floats: the matrices, then the convolution's last inputs.
  std::int64_t state_floats() const {
    return std::int64_t{value_heads} * key_dim * value_dim + std::int64_t{taps - 1} * conv_width();
  }
};

// How a token's experts are chosen, and what they weigh.
struct RouterSpec {
  // Of the router's outputs: softmax over all experts, sigmoid each, or softmax over the chosen ones (gpt-oss).
  enum class Scores { kSoftmax, kSigmoid, kSoftmaxOfChosen };
  enum class GroupScore { kBest, kBestTwo };  // a group is as good as its best expert, or as its best two together

  Scores scores = Scores::kSoftmax;
  bool normalise = false;   // weights are divided by their sum ...
  float sum_floor = 0.0f;   // ... which counts as at least this
  float scale = 1.0f;       // multiplies the weights
  bool bias = false;        // of the router's linear layer
  bool correction = false;  // a bias that counts for choosing only
  int groups = 1, groups_used = 1;
  GroupScore group_score = GroupScore::kBestTwo;
};

struct ExpertsSpec {
  int count = 0, used = 0;  // 0: a dense model
  int ffn = 0;
  bool biases = false;
  int shared_ffn = 0;        // one more expert that every token uses; 0 = none
  bool shared_gate = false;  // its output is weighed by the sigmoid of a linear layer
  RouterSpec router;
};

struct ModelSpec {
  std::string family;  // names the file in load/families
  std::string name;    // for people
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::int64_t context_length = 0;
  float rms_eps = 1e-5f;  // of all norms
  NormKind norm = NormKind::kRms;
  Activation activation = Activation::kSilu;
  bool tied_embeddings = false;  // the output head is the embedding table
  bool pre_norms = true;         // of what attention and FFN read
  bool post_norms = false;       // of what attention and FFN add to the residual stream (Gemma, OLMo 2)
  bool parallel = false;         // attention and FFN read the same normed input (Cohere)
  QkNorm qk_norm = QkNorm::kNone;
  bool attention_gate = false;      // attention's output is multiplied by the sigmoid of a linear layer (Qwen3-Next)
  bool sinks = false;               // one more logit per head in the softmax, of nothing (gpt-oss)
  float norm_weight_offset = 0.0f;  // added to every norm weight while loading (1 for Gemma safetensors)
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  // multiplies what attention and FFN add to the residual stream (Granite)
  float logit_scale = 1.0f;
  float attention_scale = 0.0f;    // multiplies q·k
  float attention_softcap = 0.0f;  // s -> c tanh(s/c); 0 = off
  float final_softcap = 0.0f;      // of the logits; 0 = off
  LatentSpec latent;               // rank 0: no such layers
  IndexerSpec indexer;             // heads 0: none
  DeltaSpec delta;                 // value_heads 0: no such layers
  ExpertsSpec experts;
  std::vector<RopeSpec> ropes;
  std::vector<LayerSpec> layer;  // one per layer

  // Of kClampedSwiglu.
  float swiglu_alpha = 1.702f, swiglu_limit = 7.0f;
  // q, k and v are clamped to +- this, after norms of their whole; 0 = off (OLMoE).
  float qkv_clip = 0.0f;

  tensor::DType main_dtype = tensor::DType::kF32;  // the type of most weight bytes; chooses the default KV type
  std::string quantisation;                        // for people: "Q4_K 62 %, Q6_K 38 %"

  bool has_sparse_layers() const { return experts.count > 0; }
  // Sequences longer than this turn by RopeSpec::long_divisors; 0: none do.
  std::int64_t long_rope_from() const {
    for (const RopeSpec& rope : ropes) {
      if (rope.scaling == RopeSpec::Scaling::kLong) return rope.original_context;
    }
    return 0;
  }
};

}  // namespace weir::load
