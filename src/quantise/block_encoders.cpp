// Block layouts: tensor/dtype.h and the GGUF formats that it names. The method is our own; that scales are searched
// around the extreme and solved for by least squares is common knowledge of quantisation.
#include "quantise/block_encoders.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/half.h"

namespace weir::quantise {
namespace {

using std::int64_t;
using std::uint16_t;
using std::uint8_t;
using tensor::DType;
using tensor::f16_from_f32;
using tensor::f32_from_f16;

// Adding and taking off 1.5 * 2^23 rounds to the nearest integer.
float nearest(float x) {
  return (x + 12582912.0f) - 12582912.0f;
}

float clamped(float x, float low, float high) {
  return x < low ? low : x > high ? high : x;
}

// The float's code under scale d (0: whatever).
float code_of(float x, float inverse, float low, float high) {
  return clamped(nearest(clamped(x * inverse, low - 1, high + 1)), low, high);
}

float inverse_of(float d) {
  return d != 0 && std::isfinite(1 / d) ? 1 / d : 0;
}

float rounded_f16(float d) {
  return f32_from_f16(f16_from_f32(clamped(d, -65504, 65504)));
}

// Sum of squared errors of x under codes times d from [low, high].
float error_of(const float* x, int n, float d, float low, float high) {
  const float inverse = inverse_of(d);
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    const float off = x[i] - d * code_of(x[i], inverse, low, high);
    sum += off * off;
  }
  return sum;
}

// The scale for codes from [low, high] (low < 0).
float best_scale(const float* x, int n, float low, float high) {
  float extreme = 0;
  for (int i = 0; i < n; ++i) extreme = std::abs(x[i]) > std::abs(extreme) ? x[i] : extreme;
  if (inverse_of(extreme) == 0) return 0;
  float best = 0, best_gain = -1;
  for (const float end : {low, high}) {
    for (int step = -9; step <= 9; ++step) {
      const float inverse = (end + 0.1f * static_cast<float>(step)) / extreme;
      float product = 0, square = 0;
      for (int i = 0; i < n; ++i) {
        const float q = code_of(x[i], inverse, low, high);
        product += x[i] * q;
        square += q * q;
      }
      if (square > 0 && product * product > best_gain * square) {
        best_gain = product * product / square;
        best = product / square;
      }
    }
  }
  return best;
}

// Of an f16 scale and its neighbours the best for x.
float best_f16(const float* x, int n, float d, float low, float high) {
  float best = rounded_f16(d), best_error = error_of(x, n, best, low, high);
  const uint16_t bits = f16_from_f32(best);
  for (const int by : {-1, 1}) {
    const auto beside = static_cast<uint16_t>(bits + by);
    if ((beside & 0x7c00) == 0x7c00 || (beside & 0x7fff) == 0x7fff) continue;
    const float other = f32_from_f16(beside), error = error_of(x, n, other, low, high);
    if (error < best_error) best = other, best_error = error;
  }
  return best;
}

// weight = d * q + m.
struct Affine {
  float d = 0, m = 0;
};

float affine_error(const float* x, int n, Affine a, float high) {
  const float inverse = inverse_of(a.d);
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    const float off = x[i] - (a.d * code_of(x[i] - a.m, inverse, 0, high) + a.m);
    sum += off * off;
  }
  return sum;
}

// The d and m that fit the codes which `a` gives, by least squares; m at most 0 if asked.
Affine fitted(const float* x, int n, Affine a, float high, bool m_below_zero) {
  const float inverse = inverse_of(a.d), count = static_cast<float>(n);
  float q1 = 0, q2 = 0, x1 = 0, xq = 0;
  for (int i = 0; i < n; ++i) {
    const float q = code_of(x[i] - a.m, inverse, 0, high);
    q1 += q;
    q2 += q * q;
    x1 += x[i];
    xq += x[i] * q;
  }
  const float det = count * q2 - q1 * q1;
  if (!(det > 0)) return a;
  Affine fit = {(count * xq - q1 * x1) / det, (q2 * x1 - q1 * xq) / det};
  if (m_below_zero && fit.m > 0) fit = {xq / q2, 0};
  return fit.d > 0 ? fit : a;
}

// For codes 0 to `high`; m at most 0 if asked.
Affine best_affine(const float* x, int n, float high, bool m_below_zero) {
  float low_x = x[0], high_x = x[0];
  for (int i = 1; i < n; ++i) low_x = std::min(low_x, x[i]), high_x = std::max(high_x, x[i]);
  if (m_below_zero) low_x = std::min(low_x, 0.0f);
  if (inverse_of(high_x - low_x) == 0) return {0, low_x};
  Affine best = {(high_x - low_x) / high, low_x};
  float best_error = affine_error(x, n, best, high);
  for (int step = -10; step <= 10; ++step) {
    Affine a = {(high_x - low_x) / (high + 0.1f * static_cast<float>(step)), low_x};
    for (int again = 0; again < 3; ++again) {
      a = fitted(x, n, a, high, m_below_zero);
      const float error = affine_error(x, n, a, high);
      if (!(error < best_error)) continue;
      best = a;
      best_error = error;
    }
  }
  return best;
}

template <class Block>
void put(const Block& block, std::byte*& to) {
  std::memcpy(to, &block, sizeof block);
  to += sizeof block;
}

void encode_q8_0(const float* x, std::byte*& to) {
  float amax = 0;
  for (int i = 0; i < 32; ++i) amax = std::max(amax, std::abs(x[i]));
  const float plain = rounded_f16(amax / 127), fit = best_f16(x, 32, best_scale(x, 32, -127, 127), -127, 127);
  const float d = error_of(x, 32, fit, -127, 127) < error_of(x, 32, plain, -127, 127) ? fit : plain;
  tensor::BlockQ8_0 block = {f16_from_f32(d), {}};
  for (int i = 0; i < 32; ++i) block.qs[i] = static_cast<std::int8_t>(code_of(x[i], inverse_of(d), -127, 127));
  put(block, to);
}

void put_nibbles(const uint8_t* q, uint8_t* qs) {
  for (int i = 0; i < 16; ++i) qs[i] = static_cast<uint8_t>((q[i] & 15) | (q[16 + i] & 15) << 4);
}

void put_fifths(const uint8_t* q, uint8_t* qh) {
  for (int i = 0; i < 4; ++i) qh[i] = 0;
  for (int i = 0; i < 32; ++i) qh[i / 8] |= static_cast<uint8_t>((q[i] >> 4) << (i % 8));
}

// Q4_0 and Q5_0.
template <class Block>
void encode_symmetric(const float* x, std::byte*& to) {
  constexpr bool kFive = requires(Block b) { b.qh; };
  constexpr float kZero = kFive ? 16 : 8;
  const float d = best_f16(x, 32, best_scale(x, 32, -kZero, kZero - 1), -kZero, kZero - 1);
  uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(code_of(x[i], inverse_of(d), -kZero, kZero - 1) + kZero);
  Block block;
  block.d = f16_from_f32(d);
  put_nibbles(q, block.qs);
  if constexpr (kFive) put_fifths(q, block.qh);
  put(block, to);
}

// Q4_1 and Q5_1.
template <class Block>
void encode_affine(const float* x, std::byte*& to) {
  constexpr bool kFive = requires(Block b) { b.qh; };
  constexpr float kHigh = kFive ? 31 : 15;
  const Affine found = best_affine(x, 32, kHigh, false);
  const Affine a = {rounded_f16(found.d), rounded_f16(found.m)};
  uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(code_of(x[i] - a.m, inverse_of(a.d), 0, kHigh));
  Block block;
  block.d = f16_from_f32(a.d);
  block.m = f16_from_f32(a.m);
  put_nibbles(q, block.qs);
  if constexpr (kFive) put_fifths(q, block.qh);
  put(block, to);
}

// 256 weights in 16 groups with integer scales: codes from [low, high], scales from [-top - 1, top].
struct Scaled {
  float d = 0;
  std::array<int, 16> scale = {};
};

float scaled_error(const float* x, const Scaled& s, int group, float low, float high) {
  return error_of(x + 16 * group, 16, s.d * static_cast<float>(s.scale[static_cast<std::size_t>(group)]), low, high);
}

void choose_scales(const float* x, const float* wanted, float low, float high, int top, Scaled* s) {
  for (int g = 0; g < 16; ++g) {
    const float ratio = clamped(wanted[g] * inverse_of(s->d), static_cast<float>(-top - 1), static_cast<float>(top));
    const int around = static_cast<int>(nearest(ratio));
    int best = around;
    float best_error = -1;
    for (int scale = std::max(around - 1, -top - 1); scale <= std::min(around + 1, top); ++scale) {
      s->scale[static_cast<std::size_t>(g)] = scale;
      const float error = scaled_error(x, *s, g, low, high);
      if (best_error < 0 || error < best_error) best = scale, best_error = error;
    }
    s->scale[static_cast<std::size_t>(g)] = best;
  }
}

float total_error(const float* x, const Scaled& s, float low, float high) {
  float sum = 0;
  for (int g = 0; g < 16; ++g) sum += scaled_error(x, s, g, low, high);
  return sum;
}

Scaled best_scaled(const float* x, float low, float high, int top) {
  float wanted[16], extreme = 0;
  for (int g = 0; g < 16; ++g) {
    wanted[g] = best_scale(x + 16 * g, 16, low, high);
    extreme = std::abs(wanted[g]) > std::abs(extreme) ? wanted[g] : extreme;
  }
  Scaled best;
  float best_error = -1;
  for (const float end : {static_cast<float>(-top - 1), static_cast<float>(top)}) {
    Scaled s;
    s.d = rounded_f16(extreme / end);
    for (int again = 0; again < 3; ++again) {
      choose_scales(x, wanted, low, high, top, &s);
      const float error = total_error(x, s, low, high);
      if (best_error < 0 || error < best_error) best = s, best_error = error;
      float product = 0, square = 0;  // d that fits these scales and codes best
      for (int i = 0; i < 256; ++i) {
        const auto scale = static_cast<float>(s.scale[static_cast<std::size_t>(i / 16)]);
        const float q = scale * code_of(x[i], inverse_of(s.d * scale), low, high);
        product += x[i] * q;
        square += q * q;
      }
      if (!(square > 0)) break;
      s.d = rounded_f16(product / square);
    }
  }
  return best;
}

void scaled_codes(const float* x, const Scaled& s, float low, float high, uint8_t* q) {
  for (int i = 0; i < 256; ++i) {
    const float d = s.d * static_cast<float>(s.scale[static_cast<std::size_t>(i / 16)]);
    q[i] = static_cast<uint8_t>(code_of(x[i], inverse_of(d), low, high) - low);
  }
}

void encode_q6_k(const float* x, std::byte*& to) {
  const Scaled s = best_scaled(x, -32, 31, 127);
  uint8_t q[256];
  scaled_codes(x, s, -32, 31, q);
  tensor::BlockQ6_K block = {};
  block.d = f16_from_f32(s.d);
  for (std::size_t g = 0; g < 16; ++g) block.scales[g] = static_cast<std::int8_t>(s.scale[g]);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* from = q + 128 * half;
    for (int l = 0; l < 32; ++l) {
      block.ql[64 * half + l] = static_cast<uint8_t>((from[l] & 15) | (from[l + 64] & 15) << 4);
      block.ql[64 * half + 32 + l] = static_cast<uint8_t>((from[l + 32] & 15) | (from[l + 96] & 15) << 4);
      block.qh[32 * half + l] = static_cast<uint8_t>(from[l] >> 4 | (from[l + 32] >> 4) << 2 |
                                                     (from[l + 64] >> 4) << 4 | (from[l + 96] >> 4) << 6);
    }
  }
  put(block, to);
}

// Two bits of each code, 128 in 32 bytes.
void put_pairs(const uint8_t* q, uint8_t* qs) {
  for (int i = 0; i < 64; ++i) qs[i] = 0;
  for (int i = 0; i < 256; ++i) qs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>((q[i] & 3) << (i % 128 / 32 * 2));
}

struct BlockQ3_K {
  uint8_t mask[32], qs[64], scales[12];
  uint16_t d;
};
static_assert(sizeof(BlockQ3_K) == 110);

void encode_q3_k(const float* x, std::byte*& to) {
  const Scaled s = best_scaled(x, -4, 3, 31);
  uint8_t q[256];
  scaled_codes(x, s, -4, 3, q);
  BlockQ3_K block = {};
  block.d = f16_from_f32(s.d);
  put_pairs(q, block.qs);
  for (int i = 0; i < 256; ++i) block.mask[i % 32] |= static_cast<uint8_t>((q[i] >> 2) << (i / 32));
  for (std::size_t g = 0; g < 16; ++g) {
    const auto scale = static_cast<unsigned>(s.scale[g] + 32);
    block.scales[g % 8] |= static_cast<uint8_t>((scale & 15) << (g / 8 * 4));
    block.scales[8 + g % 4] |= static_cast<uint8_t>((scale >> 4) << (g / 4 * 2));
  }
  put(block, to);
}

// 256 weights in groups of kSize with integer scales and minima: weight = d scale q - dmin min.
template <int kSize>
struct Minned {
  static constexpr int kGroups = 256 / kSize;
  float d = 0, dmin = 0;
  std::array<int, kGroups> scale = {}, min = {};

  Affine of(int g) const {
    const auto at = static_cast<std::size_t>(g);
    return {d * static_cast<float>(scale[at]), -dmin * static_cast<float>(min[at])};
  }
};

template <int kSize>
float total_error(const float* x, const Minned<kSize>& b, float high) {
  float sum = 0;
  for (int g = 0; g < b.kGroups; ++g) sum += affine_error(x + kSize * g, kSize, b.of(g), high);
  return sum;
}

template <int kSize>
void choose_minned(const float* x, const Affine* wanted, float high, int top, Minned<kSize>* b) {
  const auto around = [top](float value, float unit) {
    return static_cast<int>(nearest(clamped(value * inverse_of(unit), 0, static_cast<float>(top))));
  };
  for (int g = 0; g < b->kGroups; ++g) {
    const auto at = static_cast<std::size_t>(g);
    const int scale = around(wanted[g].d, b->d), min = around(-wanted[g].m, b->dmin);
    int best_scale = scale, best_min = min;
    float best_error = -1;
    for (b->scale[at] = std::max(scale - 1, 0); b->scale[at] <= std::min(scale + 1, top); ++b->scale[at]) {
      for (b->min[at] = std::max(min - 1, 0); b->min[at] <= std::min(min + 1, top); ++b->min[at]) {
        const float error = affine_error(x + kSize * g, kSize, b->of(g), high);
        if (best_error < 0 || error < best_error) best_error = error, best_scale = b->scale[at], best_min = b->min[at];
      }
    }
    b->scale[at] = best_scale;
    b->min[at] = best_min;
  }
}

// d and dmin that fit the scales, minima and codes best.
template <int kSize>
void fit_supers(const float* x, float high, Minned<kSize>* b) {
  double uu = 0, uv = 0, vv = 0, xu = 0, xv = 0;
  for (int i = 0; i < 256; ++i) {
    const int g = i / kSize;
    const Affine a = b->of(g);
    const double u = double{code_of(x[i] - a.m, inverse_of(a.d), 0, high)} * b->scale[static_cast<std::size_t>(g)],
                 v = -b->min[static_cast<std::size_t>(g)];
    uu += u * u, uv += u * v, vv += v * v, xu += u * x[i], xv += v * x[i];
  }
  const double det = uu * vv - uv * uv;
  if (det > 1e-9 * uu * vv) {
    const double d = (vv * xu - uv * xv) / det, dmin = (uu * xv - uv * xu) / det;
    if (d > 0 && dmin >= 0) b->d = rounded_f16(static_cast<float>(d)), b->dmin = rounded_f16(static_cast<float>(dmin));
  } else if (uu > 0 && vv == 0 && xu > 0) {
    b->d = rounded_f16(static_cast<float>(xu / uu));
  }
}

template <int kSize>
Minned<kSize> best_minned(const float* x, float high, int top) {
  Affine wanted[256 / kSize];
  Minned<kSize> b;
  for (int g = 0; g < b.kGroups; ++g) {
    wanted[g] = best_affine(x + kSize * g, kSize, high, true);
    b.d = std::max(b.d, wanted[g].d);
    b.dmin = std::max(b.dmin, -wanted[g].m);
  }
  b.d = rounded_f16(b.d / static_cast<float>(top));
  b.dmin = rounded_f16(b.dmin / static_cast<float>(top));
  Minned<kSize> best = b;
  float best_error = -1;
  for (int again = 0; again < 4; ++again) {
    choose_minned(x, wanted, high, top, &b);
    const float error = total_error(x, b, high);
    if (best_error < 0 || error < best_error) best = b, best_error = error;
    fit_supers(x, high, &b);
  }
  return best;
}

template <int kSize>
void minned_codes(const float* x, const Minned<kSize>& b, float high, uint8_t* q) {
  for (int i = 0; i < 256; ++i) {
    const Affine a = b.of(i / kSize);
    q[i] = static_cast<uint8_t>(code_of(x[i] - a.m, inverse_of(a.d), 0, high));
  }
}

// Eight 6-bit scales and minima in twelve bytes.
void put_k_scales(const Minned<32>& b, uint8_t* to) {
  for (std::size_t j = 0; j < 4; ++j) {
    to[j] = static_cast<uint8_t>(b.scale[j] | (b.scale[j + 4] >> 4) << 6);
    to[j + 4] = static_cast<uint8_t>(b.min[j] | (b.min[j + 4] >> 4) << 6);
    to[j + 8] = static_cast<uint8_t>((b.scale[j + 4] & 15) | (b.min[j + 4] & 15) << 4);
  }
}

// Q4_K and Q5_K.
template <class Block>
void encode_k(const float* x, std::byte*& to) {
  constexpr bool kFive = requires(Block b) { b.qh; };
  constexpr float kHigh = kFive ? 31 : 15;
  const Minned<32> b = best_minned<32>(x, kHigh, 63);
  uint8_t q[256];
  minned_codes(x, b, kHigh, q);
  Block block = {};
  block.d = f16_from_f32(b.d);
  block.dmin = f16_from_f32(b.dmin);
  put_k_scales(b, block.scales);
  for (int i = 0; i < 256; ++i) {
    block.qs[i / 64 * 32 + i % 32] |= static_cast<uint8_t>((q[i] & 15) << (i % 64 / 32 * 4));
    if constexpr (kFive) block.qh[i % 32] |= static_cast<uint8_t>((q[i] >> 4) << (i / 32));
  }
  put(block, to);
}

struct BlockQ2_K {
  uint8_t scales[16], qs[64];
  uint16_t d, dmin;
};
static_assert(sizeof(BlockQ2_K) == 84);

void encode_q2_k(const float* x, std::byte*& to) {
  const Minned<16> b = best_minned<16>(x, 3, 15);
  uint8_t q[256];
  minned_codes(x, b, 3, q);
  BlockQ2_K block = {};
  block.d = f16_from_f32(b.d);
  block.dmin = f16_from_f32(b.dmin);
  for (std::size_t g = 0; g < 16; ++g) block.scales[g] = static_cast<uint8_t>(b.scale[g] | b.min[g] << 4);
  put_pairs(q, block.qs);
  put(block, to);
}

void encode_mxfp4(const float* x, std::byte*& to) {
  constexpr float kValues[8] = {0, 1, 2, 3, 4, 6, 8, 12};  // halves of them
  float amax = 0;
  for (int i = 0; i < 32; ++i) amax = std::max(amax, std::abs(x[i]));
  int exponent = 0;
  if (amax > 0) std::frexp(amax, &exponent);
  const int around = std::clamp(exponent - 3 + 127, 0, 254);
  uint8_t best[17] = {};
  float best_error = -1;
  for (int e = std::max(around - 1, 0); e <= std::min(around + 1, 254); ++e) {
    const float d = std::ldexp(1.0f, e - 128);
    uint8_t q[32];
    float error = 0;
    for (int i = 0; i < 32; ++i) {
      const float size = std::abs(x[i]);
      unsigned code = 0;
      for (unsigned c = 1; c < 8; ++c)
        code = std::abs(size - d * kValues[c]) < std::abs(size - d * kValues[code]) ? c : code;
      const float off = size - d * kValues[code];
      error += off * off;
      q[i] = static_cast<uint8_t>(code | (x[i] < 0 && code > 0 ? 8 : 0));
    }
    if (best_error >= 0 && !(error < best_error)) continue;
    best_error = error;
    best[0] = static_cast<uint8_t>(e);
    put_nibbles(q, best + 1);
  }
  std::memcpy(to, best, sizeof best);
  to += sizeof best;
}

void encode_f32(const float* x, std::byte*& to) {
  put(*x, to);
}
void encode_f16(const float* x, std::byte*& to) {
  put(f16_from_f32(*x), to);
}
void encode_bf16(const float* x, std::byte*& to) {
  put(tensor::bf16_from_f32(*x), to);
}

using Encoder = void (*)(const float* x, std::byte*& to);

Encoder encoder_of(DType type) {
  switch (type) {
    case DType::kF32:
      return encode_f32;
    case DType::kF16:
      return encode_f16;
    case DType::kBF16:
      return encode_bf16;
    case DType::kQ8_0:
      return encode_q8_0;
    case DType::kQ4_0:
      return encode_symmetric<tensor::BlockQ4_0>;
    case DType::kQ5_0:
      return encode_symmetric<tensor::BlockQ5_0>;
    case DType::kQ4_1:
      return encode_affine<tensor::BlockQ4_1>;
    case DType::kQ5_1:
      return encode_affine<tensor::BlockQ5_1>;
    case DType::kQ2_K:
      return encode_q2_k;
    case DType::kQ3_K:
      return encode_q3_k;
    case DType::kQ4_K:
      return encode_k<tensor::BlockQ4_K>;
    case DType::kQ5_K:
      return encode_k<tensor::BlockQ5_K>;
    case DType::kQ6_K:
      return encode_q6_k;
    case DType::kMXFP4:
      return encode_mxfp4;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_encode(DType type) {
  return encoder_of(type) != nullptr;
}

void encode_row(DType type, std::span<const float> row, std::byte* to) {
  const Encoder encode = encoder_of(type);
  CHECK(encode != nullptr, "{} cannot be written", tensor::info(type).name);
  const auto block = static_cast<std::size_t>(tensor::info(type).block_elements);
  CHECK(row.size() % block == 0, "{} elements in blocks of {}", row.size(), block);
  for (std::size_t i = 0; i < row.size(); i += block) encode(row.data() + i, to);
}

}  // namespace weir::quantise
