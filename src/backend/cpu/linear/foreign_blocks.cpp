// Layouts: the GGUF formats as ggml's quantisation code has them; OCP Microscaling Formats 1.0 (MXFP4).
#include "backend/cpu/linear/foreign_blocks.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "tensor/half.h"
#include "tensor/iq_grids.h"

namespace weir::backend::cpu::linear {
namespace {

using std::int64_t;
using std::int8_t;
using std::uint16_t;
using std::uint32_t;
using std::uint8_t;
using tensor::DType;

constexpr int8_t kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kE2M1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
// The third bit of a code is a sign (IQ2), or the sign of the shift by an eighth (IQ1), or the third bit (Q3_K).
constexpr int8_t kIq2Values[16] = {8, 25, 43, 0, -8, -25, -43, 0};
constexpr int8_t kIq1Values[16] = {-7, 1, 9, 0, -9, -1, 7, 0};
constexpr int8_t kQ3Values[16] = {-4, -3, -2, -1, 0, 1, 2, 3};
// The fourth is a sign.
constexpr int8_t kIq3XxsValues[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
constexpr int8_t kIq3SValues[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

uint16_t load16(const uint8_t* from) {
  uint16_t value;
  std::memcpy(&value, from, 2);
  return value;
}

float half_at(const uint8_t* from) {
  return tensor::f32_from_f16(load16(from));
}

// The low halves of `count` bytes, then the high ones.
void split_nibbles(const uint8_t* from, int count, uint8_t* to) {
  for (int i = 0; i < count; ++i) {
    to[i] = from[i] & 15;
    to[count + i] = from[i] >> 4;
  }
}

// 2-bit codes of a K type or TQ2_0: each 32 bytes hold 128 codes, 32 in each pair of bits.
void split_pairs(const uint8_t* qs, uint8_t* to) {
  for (int i = 0; i < 256; ++i) to[i] = qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// Eight signs from seven: their number is even.
unsigned eight_signs(uint32_t seven) {
  return (seven & 127) | (std::popcount(seven & 127) & 1u) << 7;
}

// Eight 2-bit indices of a grid's entry, and in the third bits of the codes their signs.
void place_eight(uint16_t entry, unsigned signs, uint8_t* codes) {
  for (int i = 0; i < 8; ++i) codes[i] = static_cast<uint8_t>((entry >> (2 * i) & 3) | (signs >> i & 1) << 2);
}

// Four 3-bit indices, signs in the fourth bits.
void place_four(uint16_t entry, unsigned signs, uint8_t* codes) {
  for (int i = 0; i < 4; ++i) codes[i] = static_cast<uint8_t>((entry >> (3 * i) & 7) | (signs >> i & 1) << 3);
}

void iq4_nl(const uint8_t* b, ForeignBlock* to) {
  to->d[0] = half_at(b);
  split_nibbles(b + 2, 16, to->codes);
}

void iq4_xs(const uint8_t* b, ForeignBlock* to) {
  to->d[0] = half_at(b);
  const unsigned high = load16(b + 2);
  for (int g = 0; g < 8; ++g) {
    const unsigned low = b[4 + g / 2] >> (g % 2 * 4) & 15;
    to->sub[g] = static_cast<int8_t>(static_cast<int>(low | (high >> (2 * g) & 3) << 4) - 32);
    split_nibbles(b + 8 + 16 * g, 16, to->codes + 32 * g);
  }
}

// 2^(e - 128): the table is doubled.
void mxfp4(const uint8_t* b, ForeignBlock* to) {
  to->d[0] = tensor::f32_from_bf16(static_cast<uint16_t>(b[0] < 2 ? 0x20 << b[0] : (b[0] - 1) << 7));
  split_nibbles(b + 1, 16, to->codes);
}

// Unsigned E4M3, halved as the table is doubled; 127 counts as zero and the highest bit for nothing (gguf-py).
float half_ue4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  if (bits == 0x7f) return 0.0f;
  const auto fraction = static_cast<float>(bits & 7);
  return exponent == 0 ? fraction * 0x1p-10f
                       : (8 + fraction) * std::bit_cast<float>(static_cast<uint32_t>(exponent - 11 + 127) << 23);
}

void nvfp4(const uint8_t* b, ForeignBlock* to) {
  for (int g = 0; g < 4; ++g) {
    to->d[g] = half_ue4m3(b[g]);
    split_nibbles(b + 4 + 8 * g, 8, to->codes + 16 * g);
  }
}

void q2_k(const uint8_t* b, ForeignBlock* to) {
  for (int g = 0; g < 16; ++g) to->sub[g] = static_cast<int8_t>(b[g]);
  split_pairs(b + 16, to->codes);
  to->d[0] = half_at(b + 80);
  to->min = half_at(b + 82);
}

void q3_k(const uint8_t* b, ForeignBlock* to) {
  const uint8_t *mask = b, *scales = b + 96;
  to->d[0] = half_at(b + 108);
  split_pairs(b + 32, to->codes);
  for (int i = 0; i < 256; ++i) to->codes[i] |= static_cast<uint8_t>((mask[i % 32] >> (i / 32) & 1) << 2);
  for (int g = 0; g < 16; ++g) {
    const unsigned low = scales[g % 8] >> (g / 8 * 4) & 15, high = scales[8 + g % 4] >> (g / 4 * 2) & 3;
    to->sub[g] = static_cast<int8_t>(static_cast<int>(low | high << 4) - 32);
  }
}

// `count` bytes of five base-3 digits each, as the fraction digits of byte / 256: first digits of all bytes, then the
// second, ...
uint8_t* split_trits(const uint8_t* from, int count, int digits, uint8_t* to) {
  unsigned power = 1;
  for (int digit = 0; digit < digits; ++digit, power *= 3) {
    for (int i = 0; i < count; ++i) *to++ = static_cast<uint8_t>(((from[i] * power & 255) * 3) >> 8);
  }
  return to;
}

void tq1_0(const uint8_t* b, ForeignBlock* to) {
  to->d[0] = half_at(b + 52);
  to->zero = 1;
  uint8_t* codes = split_trits(b, 32, 5, to->codes);
  codes = split_trits(b + 32, 16, 5, codes);
  split_trits(b + 48, 4, 4, codes);
}

void tq2_0(const uint8_t* b, ForeignBlock* to) {
  to->d[0] = half_at(b + 64);
  to->zero = 1;
  split_pairs(b, to->codes);
}

// Odd integers 2s + 1, with the eighth (or quarter) that they are multiplied by in d.
int8_t odd(unsigned s) {
  return static_cast<int8_t>(2 * s + 1);
}

void iq2_xxs(const uint8_t* b, ForeignBlock* to) {
  to->d[0] = half_at(b) / 8;
  for (int g = 0; g < 8; ++g) {
    const uint8_t* group = b + 2 + 8 * g;
    const uint32_t rest = load32(group + 4);
    to->sub[2 * g] = to->sub[2 * g + 1] = odd(rest >> 28);
    for (int i = 0; i < 4; ++i)
      place_eight(tensor::kIq2XxsGrid[group[i]], eight_signs(rest >> (7 * i)), to->codes + 32 * g + 8 * i);
  }
}

void iq2_xs(const uint8_t* b, ForeignBlock* to) {
  to->d[0] = half_at(b) / 8;
  for (int g = 0; g < 16; ++g) to->sub[g] = odd(b[66 + g / 2] >> (g % 2 * 4) & 15);
  for (int i = 0; i < 32; ++i) {
    const unsigned q = load16(b + 2 + 2 * i);
    place_eight(tensor::kIq2XsGrid[q & 511], eight_signs(q >> 9), to->codes + 8 * i);
  }
}

void iq2_s(const uint8_t* b, ForeignBlock* to) {
  const uint8_t *qs = b + 2, *signs = b + 34, *high = b + 66, *scales = b + 74;
  to->d[0] = half_at(b) / 8;
  for (int g = 0; g < 16; ++g) to->sub[g] = odd(scales[g / 2] >> (g % 2 * 4) & 15);
  for (int i = 0; i < 32; ++i) {
    const unsigned entry = qs[i] | (high[i / 4] >> (i % 4 * 2) & 3u) << 8;
    place_eight(tensor::kIq2SGrid[entry], signs[i], to->codes + 8 * i);
  }
}

void iq3_xxs(const uint8_t* b, ForeignBlock* to) {
  to->d[0] = half_at(b) / 4;
  for (int g = 0; g < 8; ++g) {
    const uint32_t rest = load32(b + 66 + 4 * g);
    to->sub[g] = odd(rest >> 28);
    for (int i = 0; i < 8; ++i) {
      const unsigned signs = eight_signs(rest >> (i / 2 * 7)) >> (i % 2 * 4);
      place_four(tensor::kIq3XxsGrid[b[2 + 8 * g + i]], signs, to->codes + 32 * g + 4 * i);
    }
  }
}

void iq3_s(const uint8_t* b, ForeignBlock* to) {
  const uint8_t *qs = b + 2, *high = b + 66, *signs = b + 74, *scales = b + 106;
  to->d[0] = half_at(b);
  for (int g = 0; g < 8; ++g) to->sub[g] = odd(scales[g / 2] >> (g % 2 * 4) & 15);
  for (int i = 0; i < 64; ++i) {
    const unsigned entry = qs[i] | (high[i / 8] >> (i % 8) & 1u) << 8;
    place_four(tensor::kIq3SGrid[entry], signs[i / 2] >> (i % 2 * 4), to->codes + 4 * i);
  }
}

void iq1_s(const uint8_t* b, ForeignBlock* to) {
  to->d[0] = half_at(b) / 8;
  for (int g = 0; g < 8; ++g) {
    const unsigned high = load16(b + 34 + 2 * g);
    to->sub[2 * g] = to->sub[2 * g + 1] = odd(high >> 12 & 7);
    for (int i = 0; i < 4; ++i) {
      const unsigned entry = b[2 + 4 * g + i] | (high >> (3 * i) & 7) << 8;
      place_eight(tensor::kIq1Grid[entry], high & 0x8000 ? 255 : 0, to->codes + 32 * g + 8 * i);
    }
  }
}

void iq1_m(const uint8_t* b, ForeignBlock* to) {
  const uint8_t *high = b + 32, *scales = b + 48;
  unsigned d = 0;
  for (int i = 0; i < 4; ++i) d |= static_cast<unsigned>(load16(scales + 2 * i) >> 12) << (4 * i);
  to->d[0] = tensor::f32_from_f16(static_cast<uint16_t>(d)) / 8;
  for (int g = 0; g < 16; ++g) to->sub[g] = odd(load16(scales + g / 4 * 2) >> (g % 4 * 3) & 7u);
  for (int i = 0; i < 32; ++i) {
    const unsigned bits = high[i / 2] >> (i % 2 * 4);
    place_eight(tensor::kIq1Grid[b[i] | (bits & 7) << 8], bits & 8 ? 255 : 0, to->codes + 8 * i);
  }
}

template <class Block>
Block block_at(const uint8_t* from) {
  Block block;
  std::memcpy(&block, from, sizeof block);
  return block;
}

void int4(const uint8_t* b, ForeignBlock* to) {
  const auto block = block_at<tensor::BlockInt4>(b);
  to->d[0] = block.d;
  to->zero = block.zero;
  split_nibbles(block.qs, 16, to->codes);
}

// Kernels take 128 off the codes of this form.
void int8(const uint8_t* b, ForeignBlock* to) {
  const auto block = block_at<tensor::BlockInt8>(b);
  to->d[0] = block.d;
  to->zero = static_cast<std::int16_t>(block.zero - 128);
  std::memcpy(to->codes, block.qs, 32);
}

void float8(const uint8_t* b, ForeignBlock* to) {
  const auto block = block_at<tensor::BlockFloat8>(b);
  to->d[0] = block.d;
  std::memcpy(to->codes, block.qs, 32);
}

constexpr std::array kTypes = {
    ForeignType{DType::kIQ4_NL, kTable4Half, kNonLinear, iq4_nl},
    ForeignType{DType::kIQ4_XS, kTable4Sub, kNonLinear, iq4_xs},
    ForeignType{DType::kMXFP4, kTable4Brain, kE2M1Doubled, mxfp4},
    ForeignType{DType::kNVFP4, kTable4Brain16, kE2M1Doubled, nvfp4},
    ForeignType{DType::kQ2_K, kTwo, nullptr, q2_k},
    ForeignType{DType::kQ3_K, kTable3Sub, kQ3Values, q3_k},
    ForeignType{DType::kTQ1_0, kGroup2, nullptr, tq1_0},
    ForeignType{DType::kTQ2_0, kGroup2, nullptr, tq2_0},
    ForeignType{DType::kIQ2_XXS, kTable3Sub, kIq2Values, iq2_xxs},
    ForeignType{DType::kIQ2_XS, kTable3Sub, kIq2Values, iq2_xs},
    ForeignType{DType::kIQ2_S, kTable3Sub, kIq2Values, iq2_s},
    ForeignType{DType::kIQ3_XXS, kTable4Sub, kIq3XxsValues, iq3_xxs},
    ForeignType{DType::kIQ3_S, kTable4Sub, kIq3SValues, iq3_s},
    ForeignType{DType::kIQ1_S, kTable3Sub, kIq1Values, iq1_s},
    ForeignType{DType::kIQ1_M, kTable3Sub, kIq1Values, iq1_m},
    ForeignType{DType::kInt4, kGroup4, nullptr, int4},
    ForeignType{DType::kInt8, kGroup8, nullptr, int8},
    ForeignType{DType::kFloat8, kFloat8, nullptr, float8},
};

void place_float(uint8_t* to, float value) {
  std::memcpy(to, &value, 4);
}

}  // namespace

const ForeignType* foreign_type(DType dtype) {
  const auto* found = std::ranges::find(kTypes, dtype, &ForeignType::dtype);
  return found == kTypes.end() ? nullptr : found;
}

void pack_foreign(const ForeignType& type, int group_shift, const std::byte* row, int64_t index, const Lane& lane) {
  const Form& form = kForm[type.form];
  const tensor::DTypeInfo& info = tensor::info(type.dtype);
  ForeignBlock block;
  type.take_apart(reinterpret_cast<const uint8_t*>(row) + index * info.block_bytes, &block);
  const int64_t blocks = info.block_elements / kBlock, first = index * blocks;
  for (int64_t i = 0; i < blocks; ++i) {
    const uint8_t* codes = block.codes + kBlock * i;
    uint8_t* to = lane.codes + (first + i) * 64 * form.code_bits;
    if (type.form == kFloat8) {
      for (int k = 0; k < kBlock; ++k) to[kPanel * k + lane.r] = codes[k];
    } else {
      place_codes(form.code_bits, codes, to + 4 * lane.r);
    }
  }
  const int r = lane.r;
  switch (form.scales) {
    case kHalf:
      return store16(lane.scales + first * 32 + 2 * r, tensor::f16_from_f32(block.d[0]));
    case kBrain:
      for (int64_t i = 0; i < blocks * form.halves; ++i)
        store16(lane.scales + (first * form.halves + i) * 32 + 2 * r, tensor::bf16_from_f32(block.d[i]));
      return;
    case kSub: {
      uint8_t* scales = lane.scales + index * (64 + 128 * form.halves);
      place_float(scales + 4 * r, block.d[0]);
      for (int i = 0; i < 8 * form.halves; ++i) scales[64 + 16 * i + r] = static_cast<uint8_t>(block.sub[i]);
      return;
    }
    case kSuper2: {
      uint8_t* scales = lane.scales + index * 320;
      store16(scales + 2 * r, tensor::f16_from_f32(block.d[0]));
      store16(scales + 32 + 2 * r, tensor::f16_from_f32(-block.min));
      for (int i = 0; i < 16; ++i) scales[64 + 16 * i + r] = static_cast<uint8_t>(block.sub[i]);
      return;
    }
    case kGroupD:
      return place_float(lane.scales + (first >> group_shift) * kGroupDBytes + 4 * r, block.d[0]);
    case kGroup: {
      uint8_t* scales = lane.scales + (first >> group_shift) * kGroupBytes;
      place_float(scales + 4 * r, block.d[0]);
      return store16(scales + 64 + 2 * r, static_cast<uint16_t>(block.zero));
    }
    default:
      CHECK(false, "scales {}", static_cast<int>(form.scales));
  }
}

}  // namespace weir::backend::cpu::linear
