#include "model/layers/loader.h"

#include <cstring>

#include "base/check.h"
#include "tensor/half.h"

namespace weir::model {

Result<std::unique_ptr<LinearWeight>> Loader::linear(const std::string& name) {
  const load::Weight* weight = source_.find(name);
  if (weight == nullptr) return fail_at(name, ErrorCode::kCorruptFile, "tensor '{}' is missing", name);
  CHECK(weight->shape.size() == 2, "{} has {} dimensions", name, weight->shape.size());
  auto packed = backend_.pack(weight->dtype, weight->shape[0], weight->shape[1], weight->data,
                              [this](std::span<const std::byte> bytes) { source_.release(bytes); });
  bytes_ += static_cast<std::int64_t>(packed->bytes());
  return packed;
}

Result<Vector> Loader::norm(const std::string& name) {
  if (source_.find(name) == nullptr) return fail_at(name, ErrorCode::kCorruptFile, "tensor '{}' is missing", name);
  return vector(name, spec_.norm_weight_offset);
}

Result<Vector> Loader::optional_bias(const std::string& name) {
  if (source_.find(name) == nullptr) return Vector();
  return vector(name, 0.0f);
}

Result<Vector> Loader::vector(const std::string& name, float offset) {
  const load::Weight& weight = *source_.find(name);
  const std::int64_t n = weight.shape.back();
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    float value = 0.0f;
    std::uint16_t half = 0;
    switch (weight.dtype) {
      case tensor::DType::kF32:
        std::memcpy(&value, weight.data.data() + 4 * i, 4);
        break;
      case tensor::DType::kF16:
        std::memcpy(&half, weight.data.data() + 2 * i, 2);
        value = tensor::f32_from_f16(half);
        break;
      case tensor::DType::kBF16:
        std::memcpy(&half, weight.data.data() + 2 * i, 2);
        value = tensor::f32_from_bf16(half);
        break;
      default:
        return fail_at(name, ErrorCode::kUnsupported, "tensor '{}' is {}; norms and biases must be F32, F16 or BF16",
                       name, tensor::info(weight.dtype).name);
    }
    values[static_cast<std::size_t>(i)] = value + offset;
  }
  auto buffer = backend_.allocate(values.size() * sizeof(float));
  std::memcpy(buffer->data(), values.data(), values.size() * sizeof(float));
  bytes_ += static_cast<std::int64_t>(buffer->size());
  return Vector(std::move(buffer));
}

}  // namespace weir::model
