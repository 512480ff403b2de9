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
    put16(type == DType::kQ6_K ? at + 208 : at, scale());
    if (type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ4_K || type == DType::kQ5_K)
      put16(at + 2, scale());
  }
  return data;
}

inline std::vector<float> random_floats(std::int64_t count, std::mt19937& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x) v = normal(rng) * (rng() % 97 == 0 ? 30.0f : 1.0f);
  return x;
}

}  // namespace weir::backend::cpu::testing
