// Layouts: GPTQ as AutoGPTQ and GPTQModel write it, AWQ as AutoAWQ's "gemm" version, compressed-tensors (vLLM project),
// MXFP4 as in gpt-oss, FP8 as in DeepSeek V3. FP8 and MXFP4 values: OCP specifications OFP8 and Microscaling 1.0.
#include "load/quantised_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "tensor/half.h"

namespace weir::load {
namespace {

using std::int64_t;
using std::uint32_t;
using std::uint8_t;
using tensor::DType;

constexpr int64_t kRowsAtOnce = 128;
constexpr int kBlock = 32;

uint32_t word(const RawTensor& tensor, int64_t i) {
  uint32_t value;
  std::memcpy(&value, tensor.data.data() + 4 * i, 4);
  return value;
}

// Number i of `bits` bits each in words at distance `stride`.
unsigned packed_code(const RawTensor& tensor, int64_t first_word, int64_t stride, int64_t i, int bits) {
  const int64_t bit = i * bits, at = bit / 32;
  const int shift = static_cast<int>(bit % 32);
  std::uint64_t both = word(tensor, first_word + at * stride);
  if (shift + bits > 32) both |= std::uint64_t{word(tensor, first_word + (at + 1) * stride)} << 32;
  return static_cast<unsigned>(both >> shift) & ((1u << bits) - 1);
}

class GptqMatrix final : public CodeMatrix {
 public:
  GptqMatrix(const GptqTensors& tensors, int code_bits) : t_(tensors), scale_(tensors.scales) {
    bits = code_bits;
    rows = t_.scales.shape[1];
    cols = t_.codes.shape[0] * 32 / bits;
    groups = t_.scales.shape[0];
  }
  void read(int64_t first, int64_t count, CodeRows* to) const override {
    const unsigned mask = (1u << bits) - 1;
    if (32 % bits == 0) {
      read_whole_words(first, count, mask, to);
    } else {  // 3 bits: numbers go on in the next word
      for (int64_t i = 0; i < cols; ++i) {
        for (int64_t r = 0; r < count; ++r)
          to->codes[static_cast<std::size_t>(r * cols + i)] =
              static_cast<uint8_t>(packed_code(t_.codes, first + r, rows, i, bits));
      }
    }
    const int64_t zero_words = t_.zeros.shape[1];
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t g = 0; g < groups; ++g) {
        const unsigned zero = packed_code(t_.zeros, g * zero_words, 1, first + r, bits);
        to->zeros[static_cast<std::size_t>(r * groups + g)] =
            static_cast<std::int16_t>(t_.zeros_less_one ? (zero + 1) & mask : zero);
        to->scales[static_cast<std::size_t>(r * groups + g)] = scale_[g * rows + first + r];
      }
    }
  }
  std::vector<std::span<const std::byte>> sources() const override { return {t_.codes.data, t_.scales.data}; }

 private:
  void read_whole_words(int64_t first, int64_t count, unsigned mask, CodeRows* to) const {
    const int per_word = 32 / bits;
    for (int64_t i = 0; i < t_.codes.shape[0]; ++i) {
      for (int64_t r = 0; r < count; ++r) {
        const uint32_t codes = word(t_.codes, i * rows + first + r);
        uint8_t* out = to->codes.data() + r * cols + i * per_word;
        for (int j = 0; j < per_word; ++j) out[j] = static_cast<uint8_t>(codes >> (bits * j) & mask);
      }
    }
  }

  GptqTensors t_;
  FloatView scale_;
};

class AwqMatrix final : public CodeMatrix {
 public:
  AwqMatrix(RawTensor codes, RawTensor zeros, const RawTensor& scales)
      : codes_(std::move(codes)), zeros_(std::move(zeros)), scale_(scales) {
    rows = scales.shape[1];
    cols = codes_.shape[0];
    groups = scales.shape[0];
  }
  void read(int64_t first, int64_t count, CodeRows* to) const override {
    for (int64_t i = 0; i < cols; ++i) {
      for (int64_t r = 0; r < count; ++r)
        to->codes[static_cast<std::size_t>(r * cols + i)] = nibble(codes_, i, first + r);
    }
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t g = 0; g < groups; ++g) {
        to->zeros[static_cast<std::size_t>(r * groups + g)] = nibble(zeros_, g, first + r);
        to->scales[static_cast<std::size_t>(r * groups + g)] = scale_[g * rows + first + r];
      }
    }
  }
  std::vector<std::span<const std::byte>> sources() const override { return {codes_.data}; }

 private:
  // Output 8w + j is in word w at nibble kOrder[j].
  uint8_t nibble(const RawTensor& tensor, int64_t line, int64_t output) const {
    constexpr int kOrder[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return word(tensor, line * (rows / 8) + output / 8) >> (4 * kOrder[output % 8]) & 15;
  }

  RawTensor codes_, zeros_;
  FloatView scale_;
};

class CompressedMatrix final : public CodeMatrix {
 public:
  CompressedMatrix(const CompressedTensors& tensors, int code_bits) : t_(tensors), scale_(tensors.scales) {
    bits = code_bits;
    rows = t_.rows;
    cols = t_.cols;
  }
  void read(int64_t first, int64_t count, CodeRows* to) const override {
    const int offset = 1 << (bits - 1);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t row = first + r;
      uint8_t* codes = to->codes.data() + r * cols;
      if (t_.packed) {
        const int64_t words = t_.codes.shape[1];
        for (int64_t i = 0; i < cols; ++i)
          codes[i] = static_cast<uint8_t>(packed_code(t_.codes, row * words, 1, i, bits));
      } else {
        for (int64_t i = 0; i < cols; ++i)
          codes[i] = static_cast<uint8_t>(signed_byte(t_.codes, row * cols + i) + offset);
      }
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t at = one_scale() ? 0 : row * groups + g;
        to->scales[static_cast<std::size_t>(r * groups + g)] = scale_[at];
        to->zeros[static_cast<std::size_t>(r * groups + g)] = static_cast<std::int16_t>(zero(row, g, at, offset));
      }
    }
  }
  std::vector<std::span<const std::byte>> sources() const override { return {t_.codes.data}; }

 private:
  static int signed_byte(const RawTensor& tensor, int64_t i) {
    return static_cast<std::int8_t>(std::to_integer<uint8_t>(tensor.data[static_cast<std::size_t>(i)]));
  }
  bool one_scale() const { return t_.scales.shape.size() < 2 && t_.scales.shape[0] == 1; }
  int zero(int64_t row, int64_t group, int64_t at, int offset) const {
    if (!t_.has_zeros) return offset;
    if (!t_.packed_zeros) return signed_byte(t_.zeros, at) + offset;
    return static_cast<int>(packed_code(t_.zeros, group, groups, row, bits));
  }

  CompressedTensors t_;
  FloatView scale_;
};

class IntegerRows final : public RowMaker {
 public:
  IntegerRows(std::unique_ptr<CodeMatrix> matrix, DType dtype) : matrix_(std::move(matrix)), dtype_(dtype) {}

  void make(int64_t first, int64_t count, std::byte* to) const override {
    const CodeMatrix& m = *matrix_;
    const int64_t row_bytes = tensor::row_bytes(dtype_, m.cols);
    for (int64_t done = 0; done < count; done += kRowsAtOnce) {
      const int64_t some = std::min(kRowsAtOnce, count - done);
      CodeRows rows;
      rows.codes.resize(static_cast<std::size_t>(some * m.cols));
      rows.scales.resize(static_cast<std::size_t>(some * m.groups));
      rows.zeros.resize(static_cast<std::size_t>(some * m.groups));
      m.read(first + done, some, &rows);
      for (int64_t r = 0; r < some; ++r) {
        std::byte* out = to + (done + r) * row_bytes;
        if (dtype_ == DType::kInt4)
          put_blocks<tensor::BlockInt4>(rows, r, out);
        else if (dtype_ == DType::kInt8)
          put_blocks<tensor::BlockInt8>(rows, r, out);
        else
          put_floats(rows, r, out);
      }
    }
  }
  std::vector<std::span<const std::byte>> sources() const override { return matrix_->sources(); }

 private:
  template <class Block>
  void put_blocks(const CodeRows& rows, int64_t r, std::byte* out) const {
    const CodeMatrix& m = *matrix_;
    for (int64_t b = 0; b < m.cols / kBlock; ++b) {
      const auto group = static_cast<std::size_t>(r * m.groups + b * kBlock / m.group_size);
      const uint8_t* codes = rows.codes.data() + r * m.cols + b * kBlock;
      Block block;
      block.d = rows.scales[group];
      block.zero = rows.zeros[group];
      if constexpr (sizeof block.qs == kBlock) {
        std::memcpy(block.qs, codes, kBlock);
      } else {
        for (int i = 0; i < 16; ++i) block.qs[i] = static_cast<uint8_t>(codes[i] | codes[16 + i] << 4);
      }
      std::memcpy(out + b * static_cast<int64_t>(sizeof block), &block, sizeof block);
    }
  }

  void put_floats(const CodeRows& rows, int64_t r, std::byte* out) const {
    const CodeMatrix& m = *matrix_;
    for (int64_t i = 0; i < m.cols; ++i) {
      const int64_t group = m.group_of.empty() ? i / m.group_size : m.group_of[static_cast<std::size_t>(i)];
      const auto at = static_cast<std::size_t>(r * m.groups + group);
      const int code = rows.codes[static_cast<std::size_t>(r * m.cols + i)] - rows.zeros[at];
      const float value = rows.scales[at] * static_cast<float>(code);
      if (dtype_ == DType::kF32) {
        std::memcpy(out + 4 * i, &value, 4);
      } else {
        const std::uint16_t half = dtype_ == DType::kF16 ? tensor::f16_from_f32(value) : tensor::bf16_from_f32(value);
        std::memcpy(out + 2 * i, &half, 2);
      }
    }
  }

  std::unique_ptr<CodeMatrix> matrix_;
  DType dtype_;
};

class Float8Rows final : public RowMaker {
 public:
  Float8Rows(const Float8Tensors& tensors, DType dtype) : t_(tensors), scale_(tensors.scales), dtype_(dtype) {}

  void make(int64_t first, int64_t count, std::byte* to) const override {
    for (int64_t row = first; row < first + count; ++row) {
      const auto* codes = reinterpret_cast<const uint8_t*>(t_.codes.data.data()) + row * t_.cols;
      if (dtype_ == DType::kF32) {
        for (int64_t i = 0; i < t_.cols; ++i, to += 4) {
          const float value = tensor::f32_from_e4m3(codes[i]) * scale(row, i);
          std::memcpy(to, &value, 4);
        }
        continue;
      }
      for (int64_t i = 0; i < t_.cols; i += kBlock, to += sizeof(tensor::BlockFloat8)) {
        tensor::BlockFloat8 block;
        block.d = scale(row, i);
        std::memcpy(block.qs, codes + i, kBlock);
        std::memcpy(to, &block, sizeof block);
      }
    }
  }
  std::vector<std::span<const std::byte>> sources() const override { return {t_.codes.data}; }

 private:
  float scale(int64_t row, int64_t col) const {
    if (t_.one_scale) return scale_[0];
    const int64_t matrix = row / t_.rows, line = matrix * t_.scale_rows + row % t_.rows / t_.block_rows;
    return scale_[line * t_.scale_cols + col / t_.block_cols];
  }

  Float8Tensors t_;
  FloatView scale_;
  DType dtype_;
};

class Mxfp4Rows final : public RowMaker {
 public:
  Mxfp4Rows(RawTensor blocks, RawTensor scales, int64_t blocks_per_row)
      : blocks_(std::move(blocks)), scales_(std::move(scales)), per_row_(blocks_per_row) {}

  void make(int64_t first, int64_t count, std::byte* to) const override {
    for (int64_t b = first * per_row_; b < (first + count) * per_row_; ++b, to += 17) {
      const auto* pairs = reinterpret_cast<const uint8_t*>(blocks_.data.data()) + 16 * b;
      to[0] = scales_.data[static_cast<std::size_t>(b)];
      for (int i = 0; i < 16; ++i) {  // weight i beside weight i + 16, as GGUF has it
        const int low = pairs[i / 2] >> (4 * (i % 2)) & 15, high = pairs[8 + i / 2] >> (4 * (i % 2)) & 15;
        to[1 + i] = static_cast<std::byte>(low | high << 4);
      }
    }
  }
  std::vector<std::span<const std::byte>> sources() const override { return {blocks_.data}; }

 private:
  RawTensor blocks_, scales_;
  int64_t per_row_;
};

}  // namespace

FloatView::FloatView(const RawTensor& tensor)
    : type_(tensor.type == "F32"    ? Type::kF32
            : tensor.type == "F16"  ? Type::kF16
            : tensor.type == "BF16" ? Type::kBF16
                                    : Type::kE8M0),
      data_(tensor.data.data()) {
  CHECK(can_read(tensor.type), "{}", tensor.type);
}

bool FloatView::can_read(const std::string& type) {
  return type == "F32" || type == "F16" || type == "BF16" || type == "F8_E8M0";
}

float FloatView::operator[](int64_t i) const {
  if (type_ == Type::kF32) {
    float value;
    std::memcpy(&value, data_ + 4 * i, 4);
    return value;
  }
  if (type_ == Type::kE8M0) {
    const auto exponent = std::to_integer<uint32_t>(data_[i]);
    return std::bit_cast<float>(exponent == 0 ? 0x00400000u : exponent == 255 ? 0x7fc00000u : exponent << 23);
  }
  std::uint16_t half;
  std::memcpy(&half, data_ + 2 * i, 2);
  return type_ == Type::kF16 ? tensor::f32_from_f16(half) : tensor::f32_from_bf16(half);
}

std::unique_ptr<CodeMatrix> gptq_matrix(const GptqTensors& tensors, int bits) {
  return std::make_unique<GptqMatrix>(tensors, bits);
}

std::unique_ptr<CodeMatrix> awq_matrix(const RawTensor& codes, const RawTensor& zeros, const RawTensor& scales) {
  return std::make_unique<AwqMatrix>(codes, zeros, scales);
}

std::unique_ptr<CodeMatrix> compressed_matrix(const CompressedTensors& tensors, int bits) {
  return std::make_unique<CompressedMatrix>(tensors, bits);
}

std::unique_ptr<RowMaker> code_rows(std::unique_ptr<CodeMatrix> matrix, DType dtype) {
  return std::make_unique<IntegerRows>(std::move(matrix), dtype);
}

std::unique_ptr<RowMaker> float8_rows(const Float8Tensors& tensors, DType dtype) {
  return std::make_unique<Float8Rows>(tensors, dtype);
}

std::unique_ptr<RowMaker> mxfp4_rows(const RawTensor& blocks, const RawTensor& scales, int64_t blocks_per_row) {
  return std::make_unique<Mxfp4Rows>(blocks, scales, blocks_per_row);
}

}  // namespace weir::load
