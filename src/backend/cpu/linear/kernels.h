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
//       2 bits  [2][16][4]: byte (h, r, e) holds inputs 16h+4i+e at bits 2i
//       3 bits  2 bits + [16][4]: bit q of byte (r, e) is the third bit of input 4q+e
//       8 bits  [8][16][4], values + 128; kFloat8 [32][16], as they are
//     scales  see Scales below
//   F32, F16    [inputs][16]
//   BF16        [inputs/2][16][2], the input count padded with zeros to a multiple of 32
// Outputs past the matrix's last row are zero.
//
// A format is the form that file types take in memory: those of ggml that are common have one each, with the type's
// name; the others share some, with a table of 16 values that codes are indices of (foreign_blocks.h).
//
// Arithmetic with int8 activations, the same on every ISA, bit for bit: for each block of 32 (or half of one, where
// scales are per 16) inputs in ascending order
//   acc = fma(float(sum of code * activation) * scale, d, acc),   scale = d_w * sub-scale, d = the activations' scale
//   acc = fma(min, d * float(sum of activations), acc)            formats with a minimum
// The integer sums are exact, so only the order of these rounded steps matters, and it does not depend on tile shapes.
//
// Integer sums start at kSumStart: added to its bits, an integer below 2^22 makes the float kSumStartFloat + integer.
// So vector kernels need no conversion, and where 1.5 * 2^23 times the scale is exact (Traits::kShortScale) no product
// of its own either: fma(that float, scale, -kSumStartFloat * scale) rounds once, as float(sum) * scale does. A block
// takes two vector operations beside its eight products, not three.
//
// This header is included by files compiled for one ISA: plain data only, nothing from the standard library, no inline
// functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace weir::backend::cpu::linear {

enum Format {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kTable4Half,     // IQ4_NL
  kTable4Brain,    // MXFP4
  kTable4Brain16,  // NVFP4
  kTable4Sub,      // IQ4_XS, IQ3_*
  kTable3Sub,      // Q3_K, IQ2_*, IQ1_*
  kTwo,            // Q2_K
  kGroup2,         // TQ*
  kGroup4,         // int4 with a scale and a zero point per group of inputs
  kGroup8,         // int8 likewise
  kFloat8,         // FP8 E4M3 with a scale per group: widened, and multiplied with F32 activations
  kFormats
};

constexpr int kPanel = 16;        // outputs of a panel
constexpr int kBlock = 32;        // inputs that share an activation scale
constexpr int kMaxTileRows = 16;  // rows of one activation group, at most
constexpr int32_t kSumStart = 0x4b400000;
constexpr float kSumStartFloat = 12582912.0f;  // of these bits; 1.5 * 2^23, whose neighbours are 1 apart

// Scales of a panel; "super": per 8 blocks.
enum Scales {
  kNone,
  kHalf,      // per block f16 d[16]
  kHalfMin,   // per block f16 d[16], m[16]
  kSuperMin,  // per super f16 d[16], f16 -dmin[16], u8 sc[8][16], u8 mn[8][16]
  kSuper6,    // per super f16 d[16], i8 sc[16][16], one per 16 inputs
  kBrain,     // per block, or half of one, bf16 d[16]
  kSub,       // per super f32 d[16], i8 sc[8 or 16][16], one per block or half of one
  kSuper2,    // per super f16 d[16], f16 -dmin[16], u8 sc | mn << 4 [16][16], one per 16 inputs
  kGroupD,    // per group of 2^group_shift blocks f32 d[16]
  kGroup,     // per group of 2^group_shift blocks f32 d[16], i16 zero[16]: weight = d * (code - zero)
};
constexpr int kGroupBytes = 96, kGroupDBytes = 64;
constexpr int kMaxGroupShift = 3;

struct Form {
  int code_bits;
  int table;  // codes are indices
  int zero;  // what the sum of codes * activations is short of, per activation: the 128 of 8-bit codes and table values
  int halves;  // scales per block
  Scales scales;
};

constexpr Form kForm[kFormats] = {
    {},
    {},
    {},
    {4, 0, 8, 1, kHalf},      // Q4_0
    {4, 0, 0, 1, kHalfMin},   // Q4_1
    {5, 0, 16, 1, kHalf},     // Q5_0
    {5, 0, 0, 1, kHalfMin},   // Q5_1
    {8, 0, 128, 1, kHalf},    // Q8_0
    {4, 0, 0, 1, kSuperMin},  // Q4_K
    {5, 0, 0, 1, kSuperMin},  // Q5_K
    {6, 0, 32, 2, kSuper6},   // Q6_K
    {4, 1, 128, 1, kHalf},    // kTable4Half
    {4, 1, 128, 1, kBrain},   // kTable4Brain
    {4, 1, 128, 2, kBrain},   // kTable4Brain16
    {4, 1, 128, 1, kSub},     // kTable4Sub
    {3, 1, 128, 2, kSub},     // kTable3Sub
    {2, 0, 0, 2, kSuper2},    // kTwo
    {2, 0, 0, 1, kGroup},     // kGroup2
    {4, 0, 0, 1, kGroup},     // kGroup4
    {8, 0, 128, 1, kGroup},   // kGroup8
    {8, 0, 0, 1, kGroupD},    // kFloat8
};

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
  int rows;               // in the group
  int group_shift;        // kGroup
  const uint8_t* table;   // 16 values + 128; null without
  const int8_t* a;        // [blocks][rows][32]
  const float* d;         // [blocks][rows]
  const float* s;         // [blocks][rows], d * sum of a; with two halves: of the first 16
  const float* s2;        // with two halves: of the last 16
  const int32_t* offset;  // [blocks][rows], kSumStart - the format's zero point * the sum of a, likewise
  const int32_t* offset2;
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
  float* s_half[2];  // this and all below: null when no weight needs it
  int32_t* offset8;
  int32_t* offset16;
  int32_t* offset32[2];
  int32_t* offset128;
  int32_t* offset128_half[2];
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
  float swiglu_alpha;
  float swiglu_limit;
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
constexpr size_t kGemmScratch = kGemmPanels * (24 << 10) + (4 << 10);

// Many rows: up to kGemmPanels neighbouring panels against groups of rows.
struct QuantGemm {
  const uint8_t* first_panel;
  int64_t panel_bytes;
  int64_t codes_at;
  int panels;
  int64_t blocks;
  int64_t rows;
  int64_t group_rows;  // 16, the last group padded, or with Kernels::gemm_tiles those of a tile, the last less
  int group_shift;     // this, table, s and s2 as in QuantTile
  const uint8_t* table;
  const int8_t* a;  // [groups][blocks][group_rows][32]
  const float* d;   // [groups][blocks][group_rows]
  const float* s;
  const float* s2;
  const int32_t* offset;  // with Kernels::gemm_tiles, as in QuantTile
  const int32_t* offset2;
  FetchAhead next;
  GroupsDone done;
  float* acc;  // [panels][acc_stride]: [groups][group_rows][16]
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

// Blocks [first, first + count) of a panel.
struct Dequantise {
  Format format;
  int group_shift;
  const uint8_t* table;
  const uint8_t* scales;  // of the panel
  const uint8_t* codes;
  int64_t first, count;
  float* to;  // [32 count][16]
};

struct Kernels {
  int quant_rows;  // rows of a group that the quantised tiles take at once
  int float_rows;
  int bf16_rows;  // 0: no BF16 arithmetic
  int bf16_wide;  // tiles take BF16 activations as F32
  void (*quant_tile[kFormats])(const QuantTile*);
  int gemm_rows;   // from so many rows on quantised weights take quant_gemm; 0: never
  int gemm_tiles;  // quant_gemm takes activations in groups as quant_tile does
  void (*quant_gemm[kFormats])(const QuantGemm*);
  void (*float_tile[kQ4_0])(const FloatTile*);
  void (*bf16_tile)(const Bf16Tile*);
  void (*bf16_gemm)(const Bf16Gemm*);  // null: use tiles
  // out = x / rms(x) * weight. x and out may be the same. Sum of squares in 16 lanes, folded in halves.
  void (*norm_row)(const float* x, const float* weight, float eps, int64_t count, float* out, int accumulate);
  void (*quantise_row)(const float* x, const QuantRow* to);
  // One row rounded to BF16: pair p goes to to[stride * p], as two BF16 or as two F32.
  void (*round_bf16)(const float* from, int64_t pairs, int64_t stride, uint16_t* to);
  void (*round_bf16_wide)(const float* from, int64_t pairs, int64_t stride, float* to);
  // To f32 weights, exactly as the file defines them.
  void (*dequantise)(const Dequantise*);
  void (*store)(const StoreTile*);
  void (*store_gated)(const GatedStoreTile*);
};

extern const Kernels kScalarKernels, kAvx2Kernels, kAvx2VnniKernels, kAvx512Kernels, kAvx512VnniKernels, kAmxKernels;
// kAvx512VnniKernels with BF16 by multiply-adds: the same bits where bf16_by_fma(), and faster.
extern const Kernels kAvx512VnniFmaKernels;
int bf16_by_fma();  // tried out on this CPU, which has AVX-512 VNNI and BF16; for one thread at a time

}  // namespace weir::backend::cpu::linear
