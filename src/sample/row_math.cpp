#include "sample/row_math.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace weir::sample {
namespace {

constexpr std::size_t kLanes = 16;

// exp(x) for x <= 0: x = n ln 2 + r, a polynomial of degree 6 in r (Cephes' expf), exponent n put in by bits. Below the
// smallest normal number: 0.
inline float exp_nonpositive(float x) {
  constexpr float kLeast = -87.33654f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which the low bits then hold
  const float clamped = x < kLeast ? kLeast : x;
  const float shifted = clamped * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * (r * r) + r + 1.0f;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const float scaled = y * std::bit_cast<float>((exponent + 127) << 23);
  return x < kLeast ? 0.0f : scaled;
}

// Adds lanes of up to kChunk entries, f(entry) of each.
template <class F>
inline float sum_chunk(std::span<const float> chunk, F&& f) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= chunk.size(); i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += f(chunk[i + j]);
  }
  for (std::size_t j = 0; i + j < chunk.size(); ++j) lanes[j] += f(chunk[i + j]);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

template <class F>
inline double sum_row(std::span<const float> row, F&& f) {
  double sum = 0;
  for (std::size_t i = 0; i < row.size(); i += kChunk)
    sum += sum_chunk(row.subspan(i, std::min(kChunk, row.size() - i)), f);
  return sum;
}

}  // namespace

float row_max(std::span<const float> row) {
  float lanes[kLanes];
  std::uint32_t broken[kLanes] = {};
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<float>::infinity());
  const auto take = [&](float x, std::size_t j) {
    lanes[j] = x > lanes[j] ? x : lanes[j];
    broken[j] |= static_cast<std::uint32_t>(x != x);
  };
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) take(row[i + j], j);
  }
  for (std::size_t j = 0; i + j < row.size(); ++j) take(row[i + j], j);
  std::uint32_t any = 0;
  for (const std::uint32_t b : broken) any |= b;
  return any != 0 ? std::numeric_limits<float>::quiet_NaN() : *std::max_element(lanes, lanes + kLanes);
}

std::size_t index_of(std::span<const float> row, float value) {
  return static_cast<std::size_t>(std::find(row.begin(), row.end(), value) - row.begin());
}

std::size_t count_above(std::span<const float> row, float value) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < row.size(); i += kChunk) {
    std::int32_t in_chunk = 0;
    for (std::size_t j = i; j < std::min(i + kChunk, row.size()); ++j) in_chunk += row[j] > value ? 1 : 0;
    count += static_cast<std::size_t>(in_chunk);
  }
  return count;
}

double sum_exp(std::span<const float> row, float max) {
  return sum_row(row, [max](float x) { return exp_nonpositive(x - max); });
}

void exp_row(std::span<float> row, float max, float temperature, float floor) {
  for (float& x : row) {
    const float p = exp_nonpositive((x - max) / temperature);
    x = p >= floor ? p : 0.0f;
  }
}

Mass mass_from(std::span<const float> row, float least) {
  Mass mass;
  mass.sum = sum_row(row, [least](float x) { return x >= least ? x : 0.0f; });
  for (std::size_t i = 0; i < row.size(); i += kChunk) {
    std::int32_t in_chunk = 0;
    for (std::size_t j = i; j < std::min(i + kChunk, row.size()); ++j) in_chunk += row[j] >= least ? 1 : 0;
    mass.count += static_cast<std::size_t>(in_chunk);
  }
  return mass;
}

float chunk_sum(std::span<const float> chunk) {
  return sum_chunk(chunk, [](float x) { return x; });
}

}  // namespace weir::sample
