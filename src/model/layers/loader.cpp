#include "model/layers/loader.h"

#include <cstring>

#include "base/check.h"
#include "tensor/half.h"

namespace weir::model {

Result<std::unique_ptr<LinearWeight>> Loader::linear(const std::string& name) {
  const load::Weight* weight = source_.find(name);
  if (weight == nullptr) return fail_at(name, ErrorCode::kCorruptFile, "tensor '{}' is missing", name);
  CHECK(weight->shape.size() == 2, "{} has {} dimensions", name, weight->shape.size());
  WEIR_TRY(const load::WeightBytes bytes, source_.read(*weight));
  // What was put together for this is freed with `bytes`.
  const auto consumed = [&](std::span<const std::byte> part) {
    if (bytes.memory == nullptr) source_.release(part);
  };
  auto packed = backend_.pack(weight->dtype, weight->shape[0], weight->shape[1], bytes.data, consumed);
  bytes_ += static_cast<std::int64_t>(packed->bytes());
  return packed;
}

Result<Vector> Loader::norm(const std::string& name, float scale) {
  WEIR_TRY(std::vector<float> weights, values(name));
  for (float& weight : weights) weight = (weight + spec_.norm_weight_offset) * scale;
  return upload(weights);
}

Result<Vector> Loader::vector(const std::string& name) {
  WEIR_TRY(const std::vector<float> numbers, values(name));
  return upload(numbers);
}

Result<Vector> Loader::optional_vector(const std::string& name) {
  if (source_.find(name) == nullptr) return Vector();
  return vector(name);
}

Result<std::vector<float>> Loader::values(const std::string& name) {
  const load::Weight* weight = source_.find(name);
  if (weight == nullptr) return fail_at(name, ErrorCode::kCorruptFile, "tensor '{}' is missing", name);
  WEIR_TRY(const load::WeightBytes bytes, source_.read(*weight));
  std::int64_t n = 1;
  for (const std::int64_t extent : weight->shape) n *= extent;
  std::vector<float> values(static_cast<std::size_t>(n));
  const auto half_at = [&](std::size_t i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data.data() + 2 * i, 2);
    return half;
  };
  switch (weight->dtype) {
    case tensor::DType::kF32:
      std::memcpy(values.data(), bytes.data.data(), values.size() * sizeof(float));
      break;
    case tensor::DType::kF16:
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = tensor::f32_from_f16(half_at(i));
      break;
    case tensor::DType::kBF16:
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = tensor::f32_from_bf16(half_at(i));
      break;
    default:
      return fail_at(name, ErrorCode::kUnsupported, "tensor '{}' is {}; norms and biases must be F32, F16 or BF16",
                     name, tensor::info(weight->dtype).name);
  }
  return values;
}

Vector Loader::upload(const std::vector<float>& values) {
  auto buffer = backend_.allocate(values.size() * sizeof(float));
  std::memcpy(buffer->data(), values.data(), values.size() * sizeof(float));
  bytes_ += static_cast<std::int64_t>(buffer->size());
  return Vector(std::move(buffer));
}

}  // namespace weir::model
