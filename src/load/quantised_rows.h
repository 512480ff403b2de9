// How the quantisation tools of others lay weights out, read row by row into the blocks that weir packs
// (tensor/dtype.h). Shapes have been checked by whoever makes these (hf_quantised.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "load/derived_tensors.h"
#include "tensor/dtype.h"

namespace weir::load {

// A tensor as a safetensors file has it.
struct RawTensor {
  std::string name;
  std::string type;  // the file's word: "I32"
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

// Elements of F32, F16, BF16 or F8_E8M0 as floats.
class FloatView {
 public:
  explicit FloatView(const RawTensor& tensor);
  static bool can_read(const std::string& type);
  float operator[](std::int64_t i) const;

 private:
  enum class Type { kF32, kF16, kBF16, kE8M0 };
  Type type_;
  const std::byte* data_;
};

// Some rows of codes. weight = scale * (code - zero).
struct CodeRows {
  std::vector<std::uint8_t> codes;  // [rows][cols]
  std::vector<float> scales;        // [rows][groups]
  std::vector<std::int16_t> zeros;  // [rows][groups]
};

// A matrix of integers with a scale and a zero point per row and group of columns.
class CodeMatrix {
 public:
  virtual ~CodeMatrix() = default;
  virtual void read(std::int64_t first, std::int64_t count, CodeRows* to) const = 0;  // into vectors of the right size
  virtual std::vector<std::span<const std::byte>> sources() const = 0;

  std::int64_t rows = 0, cols = 0, groups = 1;
  std::int64_t group_size = 0;  // columns; the last group may have fewer
  int bits = 4;
  std::vector<std::int32_t> group_of;  // of each column, where groups are no stretches; else empty
};

// Integers packed into 32-bit words along the inputs, [inputs * bits / 32, outputs], as GPTQ tools write them.
struct GptqTensors {
  RawTensor codes, zeros, scales;  // [inputs * bits / 32, outputs], [groups, outputs * bits / 32], [groups, outputs]
  bool zeros_less_one = false;     // a stored zero point z means (z + 1) mod 2^bits: the first version of the format
};
std::unique_ptr<CodeMatrix> gptq_matrix(const GptqTensors& tensors, int bits);

// Four bits, packed along the outputs, [inputs, outputs / 8], in AWQ's order of nibbles.
std::unique_ptr<CodeMatrix> awq_matrix(const RawTensor& codes, const RawTensor& zeros, const RawTensor& scales);

// compressed-tensors: codes of any number of bits up to 8, close together in the words of a row (packed), or one in
// each byte; both count from -2^(bits-1). Scales [outputs, groups], or one. Zero points: none, in bytes like the
// scales, or packed along the outputs.
struct CompressedTensors {
  RawTensor codes, scales, zeros;
  std::int64_t rows = 0, cols = 0;
  bool packed = false, has_zeros = false, packed_zeros = false;
};
std::unique_ptr<CodeMatrix> compressed_matrix(const CompressedTensors& tensors, int bits);

// Rows of a matrix of codes as kInt4, kInt8, or as floats of one of the three types.
std::unique_ptr<RowMaker> code_rows(std::unique_ptr<CodeMatrix> matrix, tensor::DType dtype);

// FP8 weights, a stack of matrices [.., rows, cols], with scales for blocks of each, as kFloat8 or kF32.
struct Float8Tensors {
  RawTensor codes, scales;
  std::int64_t rows = 0, cols = 0;              // of a matrix
  std::int64_t scale_rows = 1, scale_cols = 1;  // 1 x 1: perhaps one for all matrices
  std::int64_t block_rows = 0, block_cols = 0;
  bool one_scale = false;
};
std::unique_ptr<RowMaker> float8_rows(const Float8Tensors& tensors, tensor::DType dtype);

// MXFP4: blocks [.., 16] of two weights a byte, neighbours, and an exponent each; as kMXFP4.
std::unique_ptr<RowMaker> mxfp4_rows(const RawTensor& blocks, const RawTensor& scales, std::int64_t blocks_per_row);

}  // namespace weir::load
