// The seam between models and hardware: a device's memory and the operations a transformer needs. CPU today
// (backend/cpu), CUDA behind the same names later. model/ sees only this header.
//
// Contract of every operation
//   * Row independence: what is computed for a row (a token) depends on that row, the weights and, for attention, its
//   own sequence's
//     KV; never on other rows, their number, the number of threads or how a sequence was cut into calls. Sums run in
//     one fixed order. This is what "same request, same bytes" rests on.
//   * Operations run in the order they are issued. On the CPU they have finished when the call returns; on a device
//   synchronize() waits.
//   * Views must not overlap unless an operation says so. Shapes are the caller's duty (CHECKed).
//   * No operation allocates after the first call with the largest shape.
// Threads: one caller at a time (the engine thread). The CPU backend spreads the work over its own pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/ids.h"
#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace weir::backend {

using tensor::DType;
using tensor::Matrix;

// Memory of the device: 64-byte aligned, zeroed, freed with the object.
class Buffer {
 public:
  virtual ~Buffer() = default;
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 protected:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// What a Buffer of `bytes` bytes is for: the first `used` of them are written.
struct BufferUse {
  std::size_t bytes = 0, used = 0;
};

// A weight matrix [rows = outputs, cols = inputs] in the backend's own packed layout.
class LinearWeight {
 public:
  virtual ~LinearWeight() = default;
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  DType dtype() const { return dtype_; }        // of the file; the packed form may differ
  std::size_t bytes() const { return bytes_; }  // of the packed form

 protected:
  std::int64_t rows_ = 0, cols_ = 0;
  DType dtype_ = DType::kF32;
  std::size_t bytes_ = 0;
};

// kClampedSwiglu (gpt-oss): with g = min(gate, limit) and u = clamp(up, -limit, limit), (u + 1) * g * sigmoid(alpha g).
enum class Activation { kSilu, kGeluTanh, kClampedSwiglu };

struct SwigluLimits {
  float alpha = 1.702f, limit = 7.0f;  // as gpt-oss was trained
};

// y[t, :] (+)= W x[t, :] + bias
struct LinearOutput {
  const LinearWeight* weight = nullptr;
  const float* bias = nullptr;  // [weight->rows()] or null
  Matrix<float> y;              // [x.rows, weight->rows()]
  bool accumulate = false;      // add to what y holds (the residual stream)
};

// Several projections of the same input (q, k and v): the input is normed and quantised once.
struct LinearCall {
  Matrix<const float> x;               // [tokens, cols]
  const float* norm_weight = nullptr;  // [cols]: x is RMS-normed with it first; null = x as it is
  float norm_eps = 0.0f;
  std::span<const LinearOutput> outputs;
};

// A matrix for each head: y[t, h * y_head + r] = sum over k of W_h[r, k] * x[t, h * x_head + k]
struct HeadLinearCall {
  Matrix<const float> x;
  std::int64_t x_head = 0;                       // columns from one head's inputs to the next one's
  std::span<const LinearWeight* const> weights;  // [heads], all of one shape
  Matrix<float> y;
  std::int64_t y_head = 0;
};

// to[t, h * to_head + to_begin + i] = from[t, h * from_head + from_begin + i] for i < count
struct CopyHeadsCall {
  Matrix<const float> from;
  std::int64_t from_head = 0, from_begin = 0;
  Matrix<float> to;
  std::int64_t to_head = 0, to_begin = 0;
  int heads = 0;
  std::int64_t count = 0;
};

// y = activation(x Gᵀ + gate_bias) * (x Uᵀ + up_bias)
struct GatedLinearCall {
  Matrix<const float> x;
  const float* norm_weight = nullptr;
  float norm_eps = 0.0f;
  const LinearWeight* gate = nullptr;
  const LinearWeight* up = nullptr;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  Activation activation = Activation::kSilu;
  Matrix<float> y;      // [x.rows, gate->rows()]
  SwigluLimits swiglu;  // of kClampedSwiglu
};

// Chooses experts of a mixture for each row. With s the scores of its logits and c = s + correction, the experts are
// those with the greatest c, the lower number of equals; with groups, only of the best groups, as told by the greatest
// c in them or the sum of the two greatest. They weigh s, divided by its sum over them (which counts as at least
// sum_floor) if `normalise`, times `scale`.
struct RouteCall {
  // Over all experts, of each by itself, or none: c are the logits, and the weights the softmax over the chosen ones.
  enum class Scores { kSoftmax, kSigmoid, kSoftmaxOfChosen };
  Matrix<const float> logits;  // [tokens, experts]
  Scores scores = Scores::kSoftmax;
  const float* correction = nullptr;  // [experts] or null
  bool normalise = false;
  float sum_floor = 0.0f, scale = 1.0f;
  int groups = 1, groups_used = 1;
  bool group_by_two = false;
  Matrix<std::int32_t> experts;  // [tokens, experts per token], best first; -1 where scores are not numbers
  Matrix<float> weights;
};

// One projection of a mixture of experts: expert e's matrix, and bias.
struct ExpertWeights {
  std::span<const LinearWeight* const> weights;  // [experts], all of one shape
  const float* bias = nullptr;                   // [experts, rows] or null
};

// A mixture of experts (Shazeer et al. 2017). With e running over the token's experts in ascending order and g its
// weight for e,
//   y[t, :] (+)= sum of g * down_e(activation(gate_e(x[t, :])) * up_e(x[t, :]))
// Rows are sorted by expert, so that an expert's weights are read once per call, however many tokens chose it.
struct ExpertsCall {
  Matrix<const float> x;               // [tokens, cols]
  const float* norm_weight = nullptr;  // as in LinearCall
  float norm_eps = 0.0f;
  Matrix<const std::int32_t> experts;  // [tokens, experts per token]; -1: none
  Matrix<const float> weights;         // [tokens, experts per token]
  ExpertWeights gate, up, down;
  Activation activation = Activation::kSilu;
  Matrix<float> y;  // [tokens, down's rows]
  bool accumulate = false;
  SwigluLimits swiglu;  // of kClampedSwiglu
};

// cos and sin of every (position, pair), scaled by the attention factor: two tables [positions, dims/2].
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int64_t positions = 0;
  int dims = 0;           // rotated elements of a head
  bool adjacent = false;  // pairs (2i, 2i+1) instead of (i, i + dims/2)
};

// For each head of each row of x [tokens, heads * head_dim], in place: RMSNorm over its first norm_dims elements (if
// norm_weight), then rotation of the elements from rope_begin on (if rope).
struct HeadNormRopeCall {
  Matrix<float> x;
  int head_dim = 0;
  const float* norm_weight = nullptr;  // [norm_dims] or null
  int norm_dims = 0;                   // 0: the whole head
  float norm_eps = 0.0f;
  const RopeTable* rope = nullptr;  // null: no rotation
  int rope_begin = 0;
  std::span<const std::int32_t> positions;  // [tokens]
};

// One layer's slice of a KV group's arena: base + b * block_stride is where block b has
//   [head][token][head_dim] of keys, then [head][token][value_dim] of values,
// i.e. the arena is [block][layer][K|V][head][token][dim] and `base` already points at this layer. With values_in_keys
// there are keys only, and a value is the beginning of its key: DeepSeek's latent attention (MLA) with its projections
// absorbed, where one head's key is the latent of 512 and the rotated 64, and its value the latent.
struct KvLayerView {
  std::byte* base = nullptr;
  std::int64_t block_stride = 0;  // bytes from one block to the next, over all layers of the group
  int block_tokens = 0;
  int heads = 0;
  int head_dim = 0;           // of keys
  DType dtype = DType::kF32;  // F32, F16 or BF16
  int value_dim = 0;          // of values; 0: as keys
  bool values_in_keys = false;

  int value_size() const { return value_dim == 0 ? head_dim : value_dim; }
};

// Stores k [tokens, heads * head_dim] and v [tokens, heads * value_dim], which is empty where values lie in keys; row i
// goes to slots[i] = block * block_tokens + offset.
struct KvWriteCall {
  Matrix<const float> k, v;
  KvLayerView kv;
  std::span<const std::int64_t> slots;
};

// Causal attention of a flat batch over paged KV (FlashAttention's online softmax; PagedAttention's block tables).
// Sequence s owns the query rows [query_starts[s], query_starts[s+1]); its last query is at position seq_lens[s] - 1
// and its KV for positions [0, seq_lens[s]) is in the blocks block_tables.row(s)[position / block_tokens] (entries
// wholly outside every query's window may be -1 and are not read). A query at position p sees positions (p - window,
// p], or [0, p] with window 0. Query head h uses KV head h / (heads / kv.heads).
struct AttentionCall {
  Matrix<const float> q;  // [tokens, heads * kv.head_dim]
  KvLayerView kv;
  int heads = 0;
  std::span<const std::int32_t> query_starts;  // [sequences + 1]
  std::span<const std::int32_t> seq_lens;      // [sequences]
  Matrix<const std::int32_t> block_tables;     // [sequences, >= blocks of the longest]
  int window = 0;
  float scale = 1.0f;
  float softcap = 0.0f;
  // [heads] or null: a logit of nothing in each head's softmax (gpt-oss), so that the weights add up to less than 1.
  const float* sinks = nullptr;
  // Without data: everything. Else each row sees the positions that its row here lists in ascending order, up to the
  // first -1; the cost is theirs, not the sequence's.
  Matrix<const std::int32_t> selected;  // [tokens, most positions]
  Matrix<float> out;                    // [tokens, heads * kv.value_size()]
};

// For each query the positions that a small scorer thinks best (DeepSeek V3.2's indexer): position s scores the sum
// over heads h of weights[t, h] * max(0, q[t, h] · k[s]). Queries see what they see in AttentionCall.
struct SelectCall {
  Matrix<const float> q;        // [tokens, heads * keys.head_dim]
  Matrix<const float> weights;  // [tokens, heads]
  KvLayerView keys;             // one head
  std::span<const std::int32_t> query_starts, seq_lens;
  Matrix<const std::int32_t> block_tables;
  // [tokens, most positions]: the best ones, of equals the earlier; in ascending order, then -1.
  Matrix<std::int32_t> positions;
};

// to[t, :] += scale * sigmoid(gate[t, 0]) * from[t, :]
struct AddCall {
  Matrix<const float> from;
  float scale = 1.0f;
  Matrix<const float> gate;  // one column; without data: 1
  Matrix<float> to;
};

// Recurrent state of the sequences of a batch: bytes [0, ...) of sequence s lie in the blocks tables.row(s), one after
// the other.
struct StateView {
  std::byte* base = nullptr;  // of block 0
  std::int64_t block_bytes = 0;
  Matrix<const std::int32_t> tables;  // [sequences, blocks]
  std::int64_t offset = 0;            // of this layer's state in a sequence's
};

// Gated delta net (Yang et al. 2024) with the short convolution before it. Of each token come
//   x, the silu of the convolution of its and the taps - 1 earlier inputs, taken apart into q, k (scaled to length 1; q
//   also by 1 / sqrt(key_dim)) and v of each head; value head h uses key head h / (value_heads / key_heads), or h mod
//   key_heads where they are `tiled`;
//   S = S * exp(decay[h] * softplus(alpha + dt[h]));  S += k (v - S' k)' * sigmoid(beta);  out = S' q.
// S [key_dim][value_dim] of each value head and the last inputs of the convolution are the state: zero before a
// sequence's first token, kept between calls. Tokens follow one another in one way however a sequence is cut.
struct DeltaCall {
  Matrix<const float> inputs;       // [tokens, channels]: q of all key heads, k of them, v of all value heads
  Matrix<const float> beta, alpha;  // [tokens, value_heads]
  const float* taps = nullptr;      // [channels][tap_count], the earliest input's first
  const float* decay = nullptr;     // [value_heads], negative
  const float* dt = nullptr;        // [value_heads]
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, tap_count = 0;
  bool tiled = false;
  std::span<const std::int32_t> query_starts, seq_lens;
  StateView state;    // of a layer: matrices, then inputs
  Matrix<float> out;  // [tokens, value_heads * value_dim]
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string describe() const = 0;  // "cpu, AVX-512 VNNI+BF16, 2 threads"

  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  // Packs `rows` rows of `cols` elements from host memory (file layout), reading every byte once. `consumed` (may be
  // empty) is told of each part that will not be read again, from several threads, so that a mapped file need not stay
  // in memory beside its packed form.
  virtual std::unique_ptr<LinearWeight> pack(DType dtype, std::int64_t rows, std::int64_t cols,
                                             std::span<const std::byte> data,
                                             const std::function<void(std::span<const std::byte>)>& consumed = {}) = 0;

  // out[i, :] = scale * table[ids[i], :], each element dequantised exactly as the file's format defines it.
  virtual void embed(const LinearWeight& table, std::span<const TokenId> ids, float scale, Matrix<float> out) = 0;
  virtual void linear(const LinearCall& call) = 0;
  virtual void gated_linear(const GatedLinearCall& call) = 0;
  virtual void head_linear(const HeadLinearCall& call) = 0;
  virtual void copy_heads(const CopyHeadsCall& call) = 0;
  virtual void route(const RouteCall& call) = 0;
  virtual void experts(const ExpertsCall& call) = 0;
  // out[t, :] = rmsnorm(x[t, :]) * weight; with accumulate, added to out. x and out may be the same.
  virtual void rms_norm(Matrix<const float> x, const float* weight, float eps, Matrix<float> out, bool accumulate) = 0;
  // out[t, :] = (x[t, :] - mean) / sqrt(variance + eps) * weight + bias; bias may be null. x and out may be the same.
  virtual void layer_norm(Matrix<const float> x, const float* weight, const float* bias, float eps,
                          Matrix<float> out) = 0;
  virtual void add(const AddCall& call) = 0;
  // x *= sigmoid(gate), or gate * sigmoid(gate), element by element.
  virtual void multiply_sigmoid(Matrix<const float> gate, Matrix<float> x) = 0;
  virtual void multiply_silu(Matrix<const float> gate, Matrix<float> x) = 0;
  // x = min(max(x, -limit), limit), element by element. NaN stays NaN.
  virtual void clamp(float limit, Matrix<float> x) = 0;
  virtual void head_norm_rope(const HeadNormRopeCall& call) = 0;
  virtual void kv_write(const KvWriteCall& call) = 0;
  virtual void attention(const AttentionCall& call) = 0;
  virtual void select_positions(const SelectCall& call) = 0;
  virtual void delta_net(const DeltaCall& call) = 0;
  // x = cap * tanh(x / cap), in place.
  virtual void softcap(Matrix<float> x, float cap) = 0;
  // Copies the named rows of x to out, in order.
  virtual void gather_rows(Matrix<const float> x, std::span<const std::int32_t> rows, Matrix<float> out) = 0;

  // Runs task(i) for i in [0, count) on the compute threads and waits. For host-side work per row (sampling).
  virtual void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& task) = 0;
  virtual int compute_threads() const = 0;
  virtual void synchronize() = 0;
};

}  // namespace weir::backend
