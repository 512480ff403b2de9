// DerivedTensors: tensors that a file holds in another layout than weir packs, made row by row when somebody asks.
//
// Their bytes have addresses from the beginning, in one reservation of address space that takes no memory; fetch()
// makes those of a stretch of whole rows, release() lets them go. So a quantised model is never in memory twice, only
// one tensor of it. Threads: fetch() by one at a time, release() by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/weight_source.h"

namespace weir::load {

// Makes the rows of one tensor from the file's.
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  virtual void make(std::int64_t first, std::int64_t count, std::byte* to) const = 0;
  // The file's bytes that it reads.
  virtual std::vector<std::span<const std::byte>> sources() const = 0;
};

class DerivedTensors {
 public:
  explicit DerivedTensors(std::function<void(std::span<const std::byte>)> release_source)
      : release_source_(std::move(release_source)) {}
  ~DerivedTensors();
  DerivedTensors(const DerivedTensors&) = delete;
  DerivedTensors& operator=(const DerivedTensors&) = delete;

  // Rows are of the last axis. Before seal().
  void add(std::string name, tensor::DType dtype, std::vector<std::int64_t> shape, std::unique_ptr<RowMaker> maker);
  // Gives all of them their addresses.
  Status seal();

  std::span<const Weight> tensors() const { return tensors_; }
  // Both return whether the bytes are of one of these tensors.
  bool fetch(std::span<const std::byte> rows) const;
  bool release(std::span<const std::byte> bytes) const;

 private:
  bool holds(std::span<const std::byte> bytes) const;

  std::function<void(std::span<const std::byte>)> release_source_;
  std::vector<Weight> tensors_;
  std::vector<std::unique_ptr<RowMaker>> makers_;
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weir::load
