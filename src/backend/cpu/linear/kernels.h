// The kernels of linear layers as a table per ISA, and the packed layout they read.
//
// Packed layout. 16 outputs (rows of the matrix) form a panel; a panel is one contiguous stretch, so a thread reads
// memory in order:
//   quantised   [scales][codes], both per block of 32 inputs, each section padded to 64 bytes
//     codes of a block, "quad" = 4 consecutive inputs = one 32-bit lane per output, as the int8 dot product
//     instructions want it:
//       4 bits  [4][16 outputs][4]: byte (i, r, e) holds input 4i+e in the low half and input 16+4i+e in the high half
//       5 bits  + [16][4]: bit q of byte (r, e) is the fifth bit of input 4q+e
//       6 bits  4 bits + [2][16][4]: byte (h, r, e) holds the upper two bits of inputs 16h+4i+e at bits 2i
//       8 bits  [8][16][4], values + 128
//     scales  Q*_0: f16 d[16] per block.  Q*_1: f16 d[16], m[16] per block.
//             Q4_K, Q5_K: per 8 blocks f16 d[16], f16 -dmin[16], u8 sc[8][16], u8 mn[8][16].
//             Q6_K: per 8 blocks f16 d[16], i8 sc[16][16] (one per 16 inputs).
//   F32, F16    [inputs][16]
//   BF16        [inputs/2][16][2], the input count padded with zeros to a multiple of 32
// Outputs past the matrix's last row are zero.
//
// Arithmetic with int8 activations, the same on every ISA, bit for bit: for each block of 32 (Q6_K: 16) inputs in
// ascending order
//   acc = fma(float(sum of code * activation), scale * d, acc),   scale = d_w * sub-scale (exact in f32), d = the
//   activations' scale acc = fma(min, d * float(sum of activations), acc)            types with a minimum
// The integer sums are exact, so only the order of these fused steps matters, and it does not depend on tile shapes.
//
// This header is included by files compiled for one ISA: plain data only, nothing from the standard library, no inline
// functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace weir::backend::cpu::linear {

enum Format { kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K, kFormats };

constexpr int kPanel = 16;        // outputs of a panel
constexpr int kBlock = 32;        // inputs that share an activation scale
constexpr int kMaxTileRows = 16;  // rows of one activation group, at most

// Neighbouring panels that a tile multiplies one after the other, some blocks of 32 inputs of each.
struct Panels {
  const uint8_t* scales;  // of the first panel, from its beginning; quantised formats
  const uint8_t* codes;   // of the first panel, from the tile's first block on; or its floats
  int64_t stride;         // bytes from panel to panel
  int count;
};

// What a tile asks memory for meanwhile: the blocks that come next in all of the panels. Several panels are streams of
// their own then, which are read up to a quarter faster than one (measured on Sapphire Rapids). Panel p's i-th block
// asks for as many bytes as a block has at codes + p / shared * block + (p % shared * blocks + i) * stride.
struct Ahead {
  const uint8_t* codes;
  int64_t stride, block;
  int shared;             // panels of the tile that ask for one block of the panels ahead
  const uint8_t* scales;  // panel p's are at scales + p * stride
  int64_t scale_bytes;
};

// One group of activation rows against blocks [first, first + blocks) of some panels. Pointers to what comes in blocks
// are at block `first`.
struct QuantTile {
  Panels panels;
  int64_t first, blocks;
  int rows;                // in the group
  const int8_t* a;         // [blocks][rows][32]
  const float* d;          // [blocks][rows]
  const float* s;          // [blocks][rows], d * sum of a
  const int32_t* offset;   // [blocks][rows], minus the format's zero point times the sum of a; Q6_K: of the first 16
  const int32_t* offset2;  // Q6_K: of the last 16
  Ahead ahead;
  float* acc;  // [panels][rows][16] with acc_stride from panel to panel; continues from what it holds
  int64_t acc_stride;
};

// Where quantise_row puts one row: entry b at stride `rows`.
struct QuantRow {
  int64_t blocks;
  int64_t rows;
  int8_t* a;
  float* d;
  float* s;
  int32_t* offset8;  // null when no weight needs it
  int32_t* offset16;
  int32_t* offset32[2];
  int32_t* offset128;
};

// F32, F16 or BF16 weights against F32 activations [inputs][rows].
struct FloatTile {
  Panels panels;
  int64_t inputs;
  int rows;
  const float* a;
  Ahead ahead;
  float* acc;  // as in QuantTile
  int64_t acc_stride;
};

// BF16 weights [pairs][16][2] against a [pairs][rows][2], BF16 or (Kernels::bf16_wide) F32 holding BF16 values.
struct Bf16Tile {
  Panels panels;
  int64_t pairs;  // a multiple of 16
  int rows;
  const void* a;
  Ahead ahead;
  float* acc;  // as in QuantTile
  int64_t acc_stride;
};

// Finished sums [panels][rows][16], sums_stride from panel to panel, on their way to y (row stride `stride`): `outputs`
// of them in each row are stored. All panels of a row at once: rows of y often lie a power of two apart, where a cache
// holds few lines.
struct StoreTile {
  const float* sums;
  int64_t sums_stride;
  int64_t rows;
  int64_t outputs;
  const float* bias;  // of the first panel on, or null
  int accumulate;
  float* y;
  int64_t stride;
};

struct GatedStoreTile {
  const float* gate;
  const float* up;
  int64_t sums_stride;
  int64_t rows;
  int64_t outputs;
  const float* gate_bias;
  const float* up_bias;
  int activation;  // 0: SiLU, 1: tanh-GELU, 2: gpt-oss's clamped SwiGLU
  float* y;
  int64_t stride;
};

// `count` stretches of memory, to be read ahead.
struct FetchAhead {
  const uint8_t* first;
  int64_t stride;
  int64_t bytes;
  int count;
};

// What is to be called when all sums of some groups of rows are there, while they are in the first-level cache.
struct GroupsDone {
  void (*call)(const void* context, int64_t group, int64_t groups);  // null: nothing
  const void* context;
};

// Panels that take turns with what is in the caches of the activations.
constexpr int kGemmPanels = 16;
constexpr size_t kGemmScratch = kGemmPanels * (22 << 10) + (4 << 10);

// Many rows by AMX tiles: up to kGemmPanels neighbouring panels against groups of 16 rows, the last padded.
struct QuantGemm {
  const uint8_t* first_panel;
  int64_t panel_bytes;
  int64_t codes_at;
  int panels;
  int64_t blocks;
  int64_t groups;
  const int8_t* a;  // [groups][blocks][16][32]
  const float* d;   // [groups][blocks][16]
  const float* s;
  FetchAhead next;
  GroupsDone done;
  float* acc;  // [panels][acc_stride]: [groups][16][16]
  int64_t acc_stride;
  uint8_t* scratch;  // kGemmScratch bytes, 64-byte aligned
};

struct Bf16Gemm {
  const uint8_t* first_panel;
  int64_t panel_bytes;
  int panels;
  int64_t pairs;
  int64_t groups;
  const uint16_t* a;  // [groups][pairs / 16][16 rows][16 pairs][2]
  FetchAhead next;
  GroupsDone done;
  float* acc;
  int64_t acc_stride;
};

struct Kernels {
  int quant_rows;  // rows of a group that the quantised tiles take at once
  int float_rows;
  int bf16_rows;  // 0: no BF16 arithmetic
  int bf16_wide;  // tiles take BF16 activations as F32
  void (*quant_tile[kFormats])(const QuantTile*);
  void (*quant_gemm[kFormats])(const QuantGemm*);  // null entries: use tiles
  void (*float_tile[kQ4_0])(const FloatTile*);
  void (*bf16_tile)(const Bf16Tile*);
  void (*bf16_gemm)(const Bf16Gemm*);  // null: use tiles
  // out = x / rms(x) * weight. x and out may be the same. Sum of squares in 16 lanes, folded in halves.
  void (*norm_row)(const float* x, const float* weight, float eps, int64_t count, float* out, int accumulate);
  void (*quantise_row)(const float* x, const QuantRow* to);
  // One row rounded to BF16: pair p goes to to[stride * p], as two BF16 or as two F32.
  void (*round_bf16)(const float* from, int64_t pairs, int64_t stride, uint16_t* to);
  void (*round_bf16_wide)(const float* from, int64_t pairs, int64_t stride, float* to);
  // Panel codes and scales of blocks [first, first + count) to f32 weights [32 count][16], exactly as the file defines
  // them.
  void (*dequantise)(Format format, const uint8_t* scales, const uint8_t* codes, int64_t first, int64_t count,
                     float* to);
  void (*store)(const StoreTile*);
  void (*store_gated)(const GatedStoreTile*);
};

extern const Kernels kScalarKernels, kAvx2Kernels, kAvx2VnniKernels, kAvx512Kernels, kAvx512VnniKernels, kAmxKernels;

}  // namespace weir::backend::cpu::linear
