#include "backend/cpu/linear/packed_weight.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "tensor/half.h"

namespace weir::backend::cpu::linear {
namespace {

using std::int64_t;
using std::uint16_t;
using std::uint32_t;
using std::uint8_t;
using tensor::f32_from_bf16;
using tensor::f32_from_f16;

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kF32;
    case DType::kF16:
      return kF16;
    case DType::kBF16:
      return kBF16;
    case DType::kQ4_0:
      return kQ4_0;
    case DType::kQ4_1:
      return kQ4_1;
    case DType::kQ5_0:
      return kQ5_0;
    case DType::kQ5_1:
      return kQ5_1;
    case DType::kQ8_0:
      return kQ8_0;
    case DType::kQ4_K:
      return kQ4_K;
    case DType::kQ5_K:
      return kQ5_K;
    case DType::kQ6_K:
      return kQ6_K;
    default:
      const ForeignType* foreign = foreign_type(dtype);
      CHECK(foreign != nullptr, "{} is no weight type", tensor::info(dtype).name);
      return foreign->form;
  }
}

int64_t code_bytes(Format format) {
  return 64 * kForm[format].code_bits;
}

// The scales of a panel of `blocks` blocks.
int64_t scale_section_bytes(Format format, int group_shift, int64_t blocks) {
  const Form& form = kForm[format];
  const int64_t supers = (blocks + 7) / 8;
  switch (form.scales) {
    case kNone:
      return 0;
    case kHalf:
      return 32 * blocks;
    case kHalfMin:
      return 64 * blocks;
    case kSuperMin:
    case kSuper2:
      return 320 * supers;
    case kSuper6:
      return 288 * supers;
    case kBrain:
      return 32 * form.halves * blocks;
    case kSub:
      return (64 + 128 * form.halves) * supers;
    case kGroup:
    case kGroupD:
      return (form.scales == kGroup ? kGroupBytes : kGroupDBytes) * ((blocks + (1 << group_shift) - 1) >> group_shift);
  }
  CHECK(false, "scales {}", static_cast<int>(form.scales));
}

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Of each nibble of x the lowest bit, the eight of them side by side.
uint8_t gather_nibble_bits(uint32_t x) {
  x &= 0x11111111u;
  x = (x | x >> 3) & 0x03030303u;
  x = (x | x >> 6) & 0x000f000fu;
  return static_cast<uint8_t>(x | x >> 12);
}

// `to` is the block's codes at the output's lane.
void pack_nibbles(const uint8_t* qs, uint8_t* to) {
  for (int i = 0; i < 4; ++i) store32(to + 64 * i, load32(qs + 4 * i));
}

void pack_fifth_bits(const uint8_t* qh, uint8_t* to) {
  const uint32_t bits = load32(qh);
  for (int e = 0; e < 4; ++e) to[256 + e] = gather_nibble_bits(bits >> e);
}

// The block's sub-block `j` of a K format: 32 nibbles from the low or high halves of 32 bytes.
void pack_k_nibbles(const uint8_t* qs, bool high, uint8_t* to) {
  for (int i = 0; i < 4; ++i) {
    const uint32_t first = load32(qs + 4 * i), second = load32(qs + 16 + 4 * i);
    store32(to + 64 * i, high ? ((first >> 4) & 0x0f0f0f0fu) | (second & 0xf0f0f0f0u)
                              : (first & 0x0f0f0f0fu) | ((second << 4) & 0xf0f0f0f0u));
  }
}

// The eight 6-bit scales and minima of a Q4_K or Q5_K block.
void unpack_k_scales(const uint8_t* from, uint8_t* scales, uint8_t* mins) {
  for (int j = 0; j < 4; ++j) {
    scales[j] = from[j] & 63;
    mins[j] = from[j + 4] & 63;
    scales[j + 4] = static_cast<uint8_t>((from[j + 8] & 15) | (from[j] >> 6) << 4);
    mins[j + 4] = static_cast<uint8_t>((from[j + 8] >> 4) | (from[j + 4] >> 6) << 4);
  }
}

template <class Block>
Block load_block(const std::byte* row, int64_t index) {
  Block block;
  std::memcpy(&block, row + index * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
  return block;
}

// Block (or block of 256) `index` of a row into a lane of the panel.
template <class Block>
void pack_simple(const std::byte* row, int64_t index, const Lane& lane) {
  constexpr bool kMin = requires(Block b) { b.m; };
  constexpr bool kFifth = requires(Block b) { b.qh; };
  const auto block = load_block<Block>(row, index);
  uint8_t* scales = lane.scales + index * (kMin ? 64 : 32) + 2 * lane.r;
  store16(scales, block.d);
  if constexpr (kMin) store16(scales + 32, block.m);
  uint8_t* codes = lane.codes + index * (kFifth ? 320 : 256) + 4 * lane.r;
  pack_nibbles(block.qs, codes);
  if constexpr (kFifth) pack_fifth_bits(block.qh, codes);
}

void pack_q8(const std::byte* row, int64_t index, const Lane& lane) {
  const auto block = load_block<tensor::BlockQ8_0>(row, index);
  store16(lane.scales + index * 32 + 2 * lane.r, block.d);
  uint8_t* codes = lane.codes + index * 512 + 4 * lane.r;
  for (int i = 0; i < 8; ++i) store32(codes + 64 * i, load32(block.qs + 4 * i) ^ 0x80808080u);
}

template <class Block>
void pack_k(const std::byte* row, int64_t index, const Lane& lane) {
  constexpr bool kFifth = requires(Block b) { b.qh; };
  constexpr int kCodes = kFifth ? 320 : 256;
  const auto block = load_block<Block>(row, index);
  uint8_t sc[8], mn[8];
  unpack_k_scales(block.scales, sc, mn);
  uint8_t* scales = lane.scales + index * 320;
  store16(scales + 2 * lane.r, block.d);
  store16(scales + 32 + 2 * lane.r, block.dmin ^ 0x8000u);
  for (int j = 0; j < 8; ++j) {
    scales[64 + 16 * j + lane.r] = sc[j];
    scales[192 + 16 * j + lane.r] = mn[j];
    uint8_t* codes = lane.codes + (index * 8 + j) * kCodes + 4 * lane.r;
    pack_k_nibbles(block.qs + 32 * (j / 2), j % 2 == 1, codes);
    if constexpr (kFifth) {
      for (int e = 0; e < 4; ++e) {
        unsigned bits = 0;
        for (int q = 0; q < 8; ++q) bits |= ((block.qh[4 * q + e] >> j) & 1u) << q;
        codes[256 + e] = static_cast<uint8_t>(bits);
      }
    }
  }
}

void pack_q6_k(const std::byte* row, int64_t index, const Lane& lane) {
  const auto block = load_block<tensor::BlockQ6_K>(row, index);
  uint8_t* scales = lane.scales + index * 288;
  store16(scales + 2 * lane.r, block.d);
  for (int j = 0; j < 16; ++j) scales[32 + 16 * j + lane.r] = static_cast<uint8_t>(block.scales[j]);
  for (int j = 0; j < 8; ++j) {
    const int half = j / 4, part = j % 4;  // 128 elements; 32 of them
    const uint8_t* ql = block.ql + 64 * half + 32 * (part % 2);
    const uint8_t* qh = block.qh + 32 * half;
    uint8_t* codes = lane.codes + (index * 8 + j) * 384 + 4 * lane.r;
    pack_k_nibbles(ql, part >= 2, codes);
    for (int h = 0; h < 2; ++h) {
      for (int e = 0; e < 4; ++e) {
        unsigned bits = 0;
        for (int i = 0; i < 4; ++i) bits |= ((qh[16 * h + 4 * i + e] >> (2 * part)) & 3u) << (2 * i);
        codes[256 + 64 * h + e] = static_cast<uint8_t>(bits);
      }
    }
  }
}

void pack_block(Format format, const std::byte* row, int64_t index, const Lane& lane) {
  switch (format) {
    case kQ4_0:
    case kTable4Half:
      return pack_simple<tensor::BlockQ4_0>(row, index, lane);
    case kQ4_1:
      return pack_simple<tensor::BlockQ4_1>(row, index, lane);
    case kQ5_0:
      return pack_simple<tensor::BlockQ5_0>(row, index, lane);
    case kQ5_1:
      return pack_simple<tensor::BlockQ5_1>(row, index, lane);
    case kQ8_0:
      return pack_q8(row, index, lane);
    case kQ4_K:
      return pack_k<tensor::BlockQ4_K>(row, index, lane);
    case kQ5_K:
      return pack_k<tensor::BlockQ5_K>(row, index, lane);
    case kQ6_K:
      return pack_q6_k(row, index, lane);
    default:
      return;
  }
}

// Source bytes a worker packs before it lets go of them: large enough that the system call is noise, small beside a
// model.
constexpr int64_t kConsumedBytes = 4 << 20;

}  // namespace

PackedWeight::PackedWeight(ThreadPool& pool, DType dtype, int64_t rows, int64_t cols, std::span<const std::byte> data,
                           const std::function<void(std::span<const std::byte>)>& consumed)
    : format_(format_of(dtype)), foreign_(foreign_type(dtype)) {
  CHECK(rows > 0 && cols > 0, "{} x {}", rows, cols);
  const int64_t row_bytes = tensor::row_bytes(dtype, cols);
  CHECK(static_cast<int64_t>(data.size()) == rows * row_bytes, "{} bytes for {} rows of {}", data.size(), rows,
        row_bytes);
  rows_ = rows;
  cols_ = cols;
  dtype_ = dtype;
  panels_ = (rows + kPanel - 1) / kPanel;
  measure(pool, data);
  memory_ = Memory(static_cast<std::size_t>(panels_ * panel_bytes_));
  bytes_ = memory_.size();
  pool.run([&](int worker, int workers) {
    const Range mine = share(panels_, worker, workers);
    const int64_t panels_at_once = std::max<int64_t>(1, kConsumedBytes / (kPanel * row_bytes));
    for (int64_t first = mine.begin; first < mine.end; first += panels_at_once) {
      const int64_t end = std::min(first + panels_at_once, mine.end);
      for (int64_t p = first; p < end; ++p) pack_panel(p, data.data() + p * kPanel * row_bytes);
      const int64_t row = first * kPanel, rows_read = std::min(end * kPanel, rows_) - row;
      if (consumed) consumed(data.subspan(row * row_bytes, rows_read * row_bytes));
    }
  });
}

// The largest groups of blocks that have the same scale (and zero point) in every row.
int PackedWeight::common_group_shift(ThreadPool& pool, std::span<const std::byte> data) const {
  const tensor::DTypeInfo& info = tensor::info(dtype_);
  if (info.block_elements > kBlock) return kMaxGroupShift;
  const auto size = static_cast<std::size_t>(info.block_bytes);
  const std::size_t same = dtype_ == DType::kFloat8 ? sizeof(float) : offsetof(tensor::BlockInt8, qs);
  const int64_t blocks = cols_ / kBlock;
  std::vector<int> shifts(static_cast<std::size_t>(pool.threads()), kMaxGroupShift);
  pool.run([&](int worker, int workers) {
    int& shift = shifts[static_cast<std::size_t>(worker)];
    const Range mine = share(rows_, worker, workers);
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      const std::byte* first = data.data() + static_cast<std::size_t>(row * blocks) * size;
      for (int64_t b = 1; b < blocks && shift > 0; ++b) {
        const std::byte* block = first + static_cast<std::size_t>(b) * size;
        if (std::memcmp(block, block - size, same) != 0)
          shift = std::min(shift, std::countr_zero(static_cast<std::uint64_t>(b)));
      }
    }
  });
  return std::ranges::min(shifts);
}

void PackedWeight::measure(ThreadPool& pool, std::span<const std::byte> data) {
  if (is_quantised(format_)) {
    if (kForm[format_].scales == kGroup || format_ == kFloat8) group_shift_ = common_group_shift(pool, data);
    if (foreign_ != nullptr && foreign_->table != nullptr) {
      for (int i = 0; i < 16; ++i) table_.push_back(static_cast<uint8_t>(foreign_->table[i] + 128));
    }
    blocks_ = cols_ / kBlock;
    block_bytes_ = code_bytes(format_);
    const int64_t scales = scale_section_bytes(format_, group_shift_, blocks_);
    block_scale_bytes_ = scales / blocks_;
    codes_at_ = round_up(scales, 64);
    panel_bytes_ = codes_at_ + blocks_ * block_bytes_;
  } else {
    const int64_t inputs = format_ == kBF16 ? round_up(cols_, kBlock) : cols_,
                  input_bytes = kPanel * (format_ == kF32 ? 4 : 2);
    block_bytes_ = kBlock * input_bytes;
    panel_bytes_ = round_up(inputs * input_bytes, 64);
  }
}

void PackedWeight::pack_panel(int64_t index, const std::byte* data) {
  auto* base = reinterpret_cast<uint8_t*>(memory_.data()) + index * panel_bytes_;
  const int64_t row_bytes = tensor::row_bytes(dtype_, cols_);
  const int lanes = static_cast<int>(std::min<int64_t>(kPanel, rows_ - index * kPanel));
  if (is_quantised(format_)) {
    const bool own = foreign_ == nullptr || foreign_->form == kTable4Half;  // IQ4_NL has the layout of Q4_0
    for (int64_t b = 0; b < cols_ / tensor::info(dtype_).block_elements; ++b) {
      for (int r = 0; r < lanes; ++r) {
        const std::byte* row = data + r * row_bytes;
        const Lane lane = {base, base + codes_at_, r};
        own ? pack_block(format_, row, b, lane) : pack_foreign(*foreign_, group_shift_, row, b, lane);
      }
    }
    return;
  }
  for (int64_t k = 0; k < cols_; ++k) {
    for (int r = 0; r < lanes; ++r) {
      if (format_ == kF32) {
        std::memcpy(base + (k * kPanel + r) * 4, data + r * row_bytes + 4 * k, 4);
      } else {
        const int64_t at = format_ == kF16 ? k * kPanel + r : ((k / 2) * kPanel + r) * 2 + k % 2;
        std::memcpy(base + 2 * at, data + r * row_bytes + 2 * k, 2);
      }
    }
  }
}

namespace {

// Reads one output's lane of a panel back, element by element.
struct LaneReader {
  Format format;
  int group_shift;
  const uint8_t* table;
  const uint8_t* scales;
  const uint8_t* codes;
  int r;

  static uint16_t bits16(const uint8_t* at) {
    uint16_t bits;
    std::memcpy(&bits, at, 2);
    return bits;
  }
  static float half(const uint8_t* at) { return f32_from_f16(bits16(at)); }
  float single(const uint8_t* at) const { return std::bit_cast<float>(load32(at + 4 * r)); }

  // Of one half of block b; `zero` beside the format's own.
  struct Scale {
    float d = 0.0f, min = 0.0f;
    int zero = 0;
  };

  Scale scale(int64_t b, int half_index) const {
    const Form& form = kForm[format];
    const int64_t sub = form.halves * (b % 8) + (form.halves == 2 ? half_index : 0);
    switch (form.scales) {
      case kNone:
        return {};
      case kGroupD:
        return {single(scales + (b >> group_shift) * kGroupDBytes)};
      case kHalf:
        return {half(scales + b * 32 + 2 * r)};
      case kHalfMin:
        return {half(scales + b * 64 + 2 * r), half(scales + b * 64 + 32 + 2 * r)};
      case kSuperMin: {
        const uint8_t* s = scales + b / 8 * 320;
        return {half(s + 2 * r) * static_cast<float>(s[64 + 16 * sub + r]),
                half(s + 32 + 2 * r) * static_cast<float>(s[192 + 16 * sub + r])};
      }
      case kSuper6: {
        const uint8_t* s = scales + b / 8 * 288;
        return {half(s + 2 * r) * static_cast<float>(static_cast<std::int8_t>(s[32 + 16 * sub + r]))};
      }
      case kBrain: {
        const int64_t at = form.halves * b + (form.halves == 2 ? half_index : 0);
        return {f32_from_bf16(bits16(scales + at * 32 + 2 * r))};
      }
      case kSub: {
        const uint8_t* s = scales + b / 8 * (64 + 128 * form.halves);
        return {single(s) * static_cast<float>(static_cast<std::int8_t>(s[64 + 16 * sub + r]))};
      }
      case kSuper2: {
        const uint8_t* s = scales + b / 8 * 320;
        const int both = s[64 + 16 * sub + r];
        return {half(s + 2 * r) * static_cast<float>(both & 15), half(s + 32 + 2 * r) * static_cast<float>(both >> 4)};
      }
      case kGroup: {
        const uint8_t* s = scales + (b >> group_shift) * kGroupBytes;
        return {single(s), 0.0f, static_cast<std::int16_t>(bits16(s + 64 + 2 * r))};
      }
    }
    return {};
  }

  float float8(int64_t b, int k) const { return tensor::f32_from_e4m3(codes[512 * b + kPanel * k + r]); }

  int code(int64_t b, int k) const {
    const int bits = kForm[format].code_bits;
    const uint8_t* c = codes + b * code_bytes(format) + 4 * r;
    const int quad = k / 4, e = k % 4;
    int code;
    if (bits == 8) {
      code = c[64 * quad + e];
    } else if (bits <= 3) {
      code = c[64 * (quad / 4) + e] >> (2 * (quad % 4)) & 3;
      if (bits == 3) code |= (c[128 + e] >> quad & 1) << 2;
    } else {
      code = c[64 * (quad % 4) + e] >> (quad >= 4 ? 4 : 0) & 15;
      if (bits == 5) code |= (c[256 + e] >> quad & 1) << 4;
      if (bits == 6) code |= (c[256 + 64 * (quad / 4) + e] >> (2 * (quad % 4)) & 3) << 4;
    }
    return (table == nullptr ? code : table[code]) - kForm[format].zero;
  }
};

}  // namespace

void PackedWeight::dequantise_row(int64_t row, float scale, float* out) const {
  const uint8_t* base = panel(row / kPanel);
  const int r = static_cast<int>(row % kPanel);
  if (!is_quantised(format_)) {
    for (int64_t k = 0; k < cols_; ++k) {
      const int64_t at = format_ == kBF16 ? ((k / 2) * kPanel + r) * 2 + k % 2 : k * kPanel + r;
      if (format_ == kF32) {
        float value;
        std::memcpy(&value, base + 4 * at, 4);
        out[k] = value * scale;
      } else {
        uint16_t bits;
        std::memcpy(&bits, base + 2 * at, 2);
        out[k] = (format_ == kF16 ? f32_from_f16(bits) : f32_from_bf16(bits)) * scale;
      }
    }
    return;
  }
  const LaneReader lane{format_, group_shift_, table(), base, base + codes_at_, r};
  for (int64_t b = 0; b < blocks_; ++b) {
    LaneReader::Scale of_block;
    for (int k = 0; k < kBlock; ++k) {
      if (k % 16 == 0) of_block = lane.scale(b, k / 16);
      const float value = format_ == kFloat8 ? lane.float8(b, k) : static_cast<float>(lane.code(b, k) - of_block.zero);
      const float product = of_block.d * value;
      out[b * kBlock + k] = (product + of_block.min) * scale;
    }
  }
}

}  // namespace weir::backend::cpu::linear
