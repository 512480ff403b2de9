// Workspace: the activations of one step, allocated once for the largest step. Every buffer is [rows, width] F32.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "load/model_spec.h"

namespace weir::model {

class Workspace {
 public:
  Workspace(const load::ModelSpec& spec, backend::Backend& backend, std::int64_t max_rows);

  std::int64_t max_rows() const { return max_rows_; }
  tensor::Matrix<float> x(std::int64_t rows) const { return view(kX, rows); }  // [rows, hidden] the residual stream
  tensor::Matrix<float> q(std::int64_t rows) const { return view(kQ, rows); }  // [rows, heads * head_dim]
  tensor::Matrix<float> k(std::int64_t rows) const { return view(kK, rows); }  // [rows, kv_heads * head_dim]
  tensor::Matrix<float> v(std::int64_t rows) const { return view(kV, rows); }  // [rows, kv_heads * head_dim]
  tensor::Matrix<float> attended(std::int64_t rows) const { return view(kAttended, rows); }  // [rows, heads * head_dim]
  tensor::Matrix<float> inner(std::int64_t rows) const { return view(kInner, rows); }        // [rows, ffn]
  tensor::Matrix<float> branch(std::int64_t rows) const {
    return view(kBranch, rows);
  }  // [rows, hidden] before a post norm

 private:
  enum Slot { kX, kQ, kK, kV, kAttended, kInner, kBranch, kSlots };
  tensor::Matrix<float> view(Slot slot, std::int64_t rows) const;

  std::int64_t max_rows_;
  std::unique_ptr<backend::Buffer> buffer_[kSlots];
  std::int64_t width_[kSlots];
};

}  // namespace weir::model
