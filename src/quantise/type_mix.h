// Which type each tensor of a model gets when a file of some kind ("Q4_K_M") is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace weir::quantise {

// A kind of file, by the name that llama.cpp gave it: most matrices in `base`, some in wider types.
struct FileKind {
  std::string_view name;
  tensor::DType base;
  int file_type;  // general.file_type
};

// Any case; nullptr for none.
const FileKind* find_kind(std::string_view name);
// All names, for messages.
std::string kind_names();

// What the choice depends on.
struct TensorFacts {
  std::string_view name;            // canonical
  std::vector<std::int64_t> shape;  // outermost first
  int layers = 0;                   // of the model
  int queries_per_kv_head = 1;
  bool tied = false;  // the embeddings are the output matrix too
};

tensor::DType type_for(const FileKind& kind, const TensorFacts& tensor);

}  // namespace weir::quantise
