// The per-ISA row kernels behind attention and the small operations, as tables of functions on raw pointers.
//
// Each kernels_<isa>.cpp compiles the same algorithm text (math.inc, attention.inc, rows.inc) over its own vector layer
// (simd_<isa>.inc), all in an unnamed namespace. Those files include no header with inline functions: a copy compiled
// for a newer CPU could be the one the linker keeps for everybody. This header therefore holds plain data only.
//
// Every kernel gives a row the same bits whatever rows are beside it. Between ISAs bits may differ, except in
// head_norm_rope, delta_step and store_kv, which use only correctly rounded operations in an order of their own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::backend::cpu {

enum class KvKind { kF32, kF16, kBF16 };

// KV is looked at in tiles of this many tokens, at multiples of it.
constexpr int kTileTokens = 64;

// The stored vectors of a tile's tokens: token t's is at at[t] + offset. All kTileTokens of them must be readable.
struct StoredVectors {
  const std::byte* const* at = nullptr;
  std::int64_t offset = 0;  // bytes
};

// Columns of values and outputs are padded to this, so that every ISA works on whole vectors.
constexpr int kPadding = 16;

// Widened values lie in pieces of so many columns, each piece token after token.
constexpr int kValuePiece = 64;

// One tile of keys and values against some query rows; see attention.h for the algorithm.
struct AttentionTile {
  KvKind kind = KvKind::kF32;
  int key_dim = 0, value_dim = 0;
  int padded_dim = 0;  // value_dim rounded up to kPadding
  StoredVectors stored_keys, stored_values;
  // What comes after this tile: fetched into the cache meanwhile. No next_values where values lie in keys.
  StoredVectors next_keys, next_values;
  int used_begin = 0, used_end = 0;  // tokens that some row sees; others may hold anything and are not looked at

  int rows = 0;
  const float* q =
      nullptr;  // [rows][key_dim], scaled so that scores are base-2 logarithms (before the cap, if there is one)
  const int* begin = nullptr;  // [rows] row r sees tokens [begin[r], end[r]) of the tile; nothing where begin >= end
  const int* end = nullptr;
  float cap = 0.0f;  // > 0: score = cap * tanh(score)

  std::byte* keys = nullptr;   // scratch [key_dim][kTileTokens] of the stored type
  float* wide_keys = nullptr;  // scratch [key_dim][kTileTokens]
  float* values = nullptr;     // scratch [pieces][kTileTokens][kValuePiece]

  float* max = nullptr;  // [rows] running maximum of the scores, -infinity at first
  float* sum = nullptr;  // [rows] running sum of 2^(score - max), 0 at first
  float* out = nullptr;  // [rows][padded_dim] running sum of 2^(score - max) * value, 0 at first
};

// A token's step of a gated delta net, in one head.
struct DeltaStep {
  int key_dim = 0, value_dim = 0;
  const float* q = nullptr;  // [key_dim]
  const float* k = nullptr;
  const float* v = nullptr;  // [value_dim]
  float decay = 0.0f;        // multiplies the state
  float beta = 0.0f;
  float* state = nullptr;   // [key_dim][value_dim]
  float* change = nullptr;  // scratch [value_dim]
  float* out = nullptr;     // [value_dim]
};

// One head of one row.
struct HeadNormRope {
  float* x = nullptr;
  int dim = 0;
  const float* norm_weight = nullptr;  // null: no norm
  float norm_eps = 0.0f;
  const float* cos = nullptr;  // [rotated / 2]; null: no rotation
  const float* sin = nullptr;
  int rotated = 0;
  bool adjacent = false;
};

struct OpKernels {
  void (*attention_tile)(const AttentionTile& tile);
  // Adds the partial result (max, sum, out) of a run of KV to the total; a run a row saw nothing of (sum 0) changes
  // nothing.
  void (*attention_merge)(int rows, int padded_dim, const float* max, const float* sum, const float* out,
                          float* total_max, float* total_sum, float* total_out);
  // y = total * (1 / sum)
  void (*attention_finish)(int dim, float sum, const float* total, float* y);

  // scores[t] = sum over rows r of weights[r] * max(0, q[r] · keys[t]), for all kTileTokens tokens of the tile; those
  // outside [used_begin, used_end) may get anything. Needs of the tile: kind, key_dim, stored_keys, used_*, rows, q,
  // and the scratch for keys.
  void (*index_tile)(const AttentionTile& tile, const float* weights, float* scores);

  void (*head_norm_rope)(const HeadNormRope& head);
  void (*delta_step)(const DeltaStep& step);
  void (*store_kv)(KvKind kind, const float* x, int dim, std::byte* to);  // to nearest even; F16 saturates at +-65504
  void (*softcap)(float* x, std::int64_t count, float cap);
  void (*exp2)(const float* x, std::int64_t count, float* y);  // 2^x for x <= 0, 0 below 2^-100
};

extern const OpKernels kOpKernelsScalar;
extern const OpKernels kOpKernelsAvx2;  // defined on x86-64 only
extern const OpKernels kOpKernelsAvx512;

}  // namespace weir::backend::cpu
