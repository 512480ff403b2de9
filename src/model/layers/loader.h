// Loader: weights by name into the backend's memory, with every shape known beforehand (load/ has verified them).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "load/model_spec.h"
#include "load/weight_source.h"

namespace weir::model {

using backend::Backend;
using backend::LinearWeight;
using load::ModelSpec;
using tensor::Matrix;

// A short F32 vector on the device (norm weights, biases). Empty means the model has none.
class Vector {
 public:
  Vector() = default;
  Vector(std::unique_ptr<backend::Buffer> buffer) : buffer_(std::move(buffer)) {}
  const float* data() const { return buffer_ ? reinterpret_cast<const float*>(buffer_->data()) : nullptr; }

 private:
  std::unique_ptr<backend::Buffer> buffer_;
};

class Loader {
 public:
  // The layers keep a pointer to `spec`: it is the model's own copy, not the caller's.
  Loader(const ModelSpec& spec, load::WeightSource& source, Backend& backend)
      : spec_(spec), source_(source), backend_(backend) {}

  Result<std::unique_ptr<LinearWeight>> linear(const std::string& name);
  Result<Vector> norm(const std::string& name, float scale = 1.0f);  // (weight + spec.norm_weight_offset) * scale
  Result<Vector> vector(const std::string& name);
  Result<Vector> optional_vector(const std::string& name);  // empty: there is none
  Result<std::vector<float>> values(const std::string& name);
  Vector upload(const std::vector<float>& values);

  const ModelSpec& spec() const { return spec_; }
  Backend& backend() const { return backend_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  const ModelSpec& spec_;
  load::WeightSource& source_;
  Backend& backend_;
  std::int64_t bytes_ = 0;
};

}  // namespace weir::model
