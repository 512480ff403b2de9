// WeightSource: the tensors of a model by canonical name, as bytes in a mapped file or put together from it.
//
// Canonical names are GGUF's ("token_embd.weight", "output_norm.weight", "output.weight", "blk.N.attn_q.weight",
// ".bias", ...); what files call them, fuse and stack is translated by load/ (tensor_map.h). Shapes are checked against
// the ModelSpec before anybody sees them. Threads: find() and read() are const; release() may be called from several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace weir::load {

struct Weight {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<std::int64_t> shape;  // outermost first: {rows = outputs, cols = inputs}; the last axis is contiguous
  // Exactly rows * row_bytes(dtype, cols); empty where they lie apart in the file and read() must put them together.
  std::span<const std::byte> data;

  std::int64_t bytes() const {
    return shape.empty() ? 0 : tensor::row_bytes(dtype, shape.back()) * (shape.size() > 1 ? shape.front() : 1);
  }
};

// A weight's bytes.
struct WeightBytes {
  std::span<const std::byte> data;
  std::shared_ptr<void> memory;  // null: they are the file's own, and release() lets go of them
};

// A tensor of a type that weir cannot compute with (yet): its place was checked like any other's, but only its facts
// are kept.
struct UnsupportedTensor {
  std::string name;
  std::string type;                 // "Q8_K"
  std::vector<std::int64_t> shape;  // outermost first
  std::int64_t bytes = 0;
  std::span<const std::byte> data = {};  // safetensors files only
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // The tensor, or nullptr when the file has none of that name. The pointer lives as long as the source.
  virtual const Weight* find(std::string_view name) const = 0;
  // The bytes of a weight that find() gave, on the boundaries that its elements need.
  virtual Result<WeightBytes> read(const Weight& weight) const = 0;
  virtual std::span<const Weight> all() const = 0;

  // The caller has copied these bytes of a tensor and will not read them again soon: their pages may leave memory.
  virtual void release(std::span<const std::byte> bytes) = 0;
};

}  // namespace weir::load
