// WeightSource: the tensors of a model by canonical name, as bytes in a mapped file.
//
// Canonical names are GGUF's ("token_embd.weight", "output_norm.weight", "output.weight", "blk.N.attn_q.weight",
// ".bias", ...); safetensors names are translated by load/. Shapes are checked against the ModelSpec before anybody
// sees them. Threads: find() is const and release() may be called from several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace weir::load {

struct Weight {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<std::int64_t> shape;  // outermost first: {rows = outputs, cols = inputs}; the last axis is contiguous
  std::span<const std::byte> data;  // exactly rows * row_bytes(dtype, cols)
};

// A tensor of a type that weir cannot compute with (yet): its place was checked like any other's, but only its facts
// are kept.
struct UnsupportedTensor {
  std::string name;
  std::string type;                 // "Q8_K"
  std::vector<std::int64_t> shape;  // outermost first
  std::int64_t bytes = 0;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // The tensor, or nullptr when the file has none of that name. The pointer lives as long as the source.
  virtual const Weight* find(std::string_view name) const = 0;
  virtual std::span<const Weight> all() const = 0;

  // The caller has copied these bytes of a tensor and will not read them again soon: their pages may leave memory.
  virtual void release(std::span<const std::byte> bytes) = 0;
};

}  // namespace weir::load
