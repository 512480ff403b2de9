// A view of rows of numbers. Views never own; the pointer may belong to a device.
#pragma once

#include <cstdint>
#include <type_traits>

namespace weir::tensor {

template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements from one row to the next, >= cols

  Matrix() = default;
  Matrix(T* data, std::int64_t rows, std::int64_t cols) : Matrix(data, rows, cols, cols) {}
  Matrix(T* data, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}
  template <class U>
    requires(std::is_same_v<const U, T>)
  Matrix(const Matrix<U>& other) : Matrix(other.data, other.rows, other.cols, other.stride) {}

  T* row(std::int64_t i) const { return data + i * stride; }
};

}  // namespace weir::tensor
