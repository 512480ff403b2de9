// What tests of linear layers share: the ISAs of this machine, random weights in every file format.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "tensor/half.h"

namespace weir::backend::cpu::testing {

inline std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx2Vnni, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx}) {
    if (supported(isa)) found.push_back(isa);
  }
  return found;
}

inline std::unique_ptr<Backend> make(Isa isa, int threads = 2, Compute compute = Compute::kAuto) {
  return make_cpu_backend({.threads = threads, .isa = isa, .compute = compute}).value();
}

// Random bytes make valid blocks once their f16 scales are sane numbers.
inline std::vector<std::byte> random_weights(DType type, std::int64_t rows, std::int64_t cols, std::mt19937& rng) {
  std::vector<std::byte> data(static_cast<std::size_t>(rows * tensor::row_bytes(type, cols)));
  std::normal_distribution<float> normal;
  const auto put16 = [&](std::size_t at, std::uint16_t bits) { std::memcpy(data.data() + at, &bits, 2); };
  if (!tensor::is_quantised(type)) {
    for (std::size_t i = 0; i < data.size() / static_cast<std::size_t>(tensor::info(type).block_bytes); ++i) {
      const float value = normal(rng);
      if (type == DType::kF32) std::memcpy(data.data() + 4 * i, &value, 4);
      if (type == DType::kF16) put16(2 * i, tensor::f16_from_f32(value));
      if (type == DType::kBF16) put16(2 * i, tensor::bf16_from_f32(value));
    }
    return data;
  }
  for (std::byte& b : data) b = static_cast<std::byte>(rng());
  const auto scale = [&] { return tensor::f16_from_f32(0.02f * normal(rng)); };
  const auto size = static_cast<std::size_t>(tensor::info(type).block_bytes);
  for (std::size_t at = 0; at < data.size(); at += size) {
    if (type == DType::kMXFP4) {
      data[at] = static_cast<std::byte>(115 + rng() % 10);
    } else if (type == DType::kInt4 || type == DType::kInt8 || type == DType::kFloat8) {
      // Groups of four blocks, but for one more border.
      const bool fresh = at / size % 4 == 0 || at / size == 6;
      if (!fresh) {
        std::memcpy(data.data() + at, data.data() + at - size, type == DType::kFloat8 ? 4 : 6);
      } else {
        const float d = 0.02f * normal(rng) / (type == DType::kInt4 ? 1.0f : 16.0f);
        std::memcpy(data.data() + at, &d, 4);
        const auto zero = static_cast<std::int16_t>(rng() % (type == DType::kInt4 ? 17 : 257));
        if (type != DType::kFloat8) std::memcpy(data.data() + at + 4, &zero, 2);
      }
      for (std::size_t i = at + 4; type == DType::kFloat8 && i < at + size; ++i) {
        if ((data[i] & std::byte{0x7f}) == std::byte{0x7f}) data[i] = std::byte{0};  // no NaN
      }
    } else if (type == DType::kNVFP4) {
      for (std::size_t i = 0; i < 4; ++i) data[at + i] = static_cast<std::byte>(rng() % 48);
    } else if (type == DType::kIQ1_M) {  // a quarter of the f16 in the upper bits of each of the last four 16
      const std::uint16_t bits = scale();
      for (std::size_t i = 0; i < 4; ++i) {
        std::byte& b = data[at + 49 + 2 * i];
        b = (b & std::byte{15}) | static_cast<std::byte>((bits >> (4 * i) & 15) << 4);
      }
    } else {
      const bool at_end = type == DType::kQ6_K || type == DType::kQ3_K || type == DType::kTQ1_0 ||
                          type == DType::kTQ2_0 || type == DType::kQ2_K;
      const std::size_t end = type == DType::kQ2_K ? size - 4 : size - 2;
      put16(at_end ? at + end : at, scale());
      if (type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ4_K || type == DType::kQ5_K)
        put16(at + 2, scale());
      if (type == DType::kQ2_K) put16(at + end + 2, scale());
    }
  }
  return data;
}

// One type for each form that weights take in memory.
inline constexpr DType kQuantisedForms[] = {DType::kQ4_0,  DType::kQ4_1,   DType::kQ5_0, DType::kQ5_1,   DType::kQ8_0,
                                            DType::kQ4_K,  DType::kQ5_K,   DType::kQ6_K, DType::kIQ4_NL, DType::kMXFP4,
                                            DType::kNVFP4, DType::kIQ4_XS, DType::kQ3_K, DType::kQ2_K,   DType::kTQ2_0,
                                            DType::kInt4,  DType::kInt8};

inline std::vector<float> random_floats(std::int64_t count, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x) v = normal(rng) * (rng() % 97 == 0 ? 30.0f : 1.0f);
  return x;
}

}  // namespace weir::backend::cpu::testing
