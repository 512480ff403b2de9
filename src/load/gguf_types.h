// The tensor types of GGUF by number: all that the format defines, of which weir computes with some.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace weir::load {

struct GgufType {
  std::string_view name;
  std::int64_t block_elements;
  std::int64_t block_bytes;
  std::optional<tensor::DType> dtype;  // nullopt: known, not supported
};

// nullptr when the number is not one of the format's (or was withdrawn from it).
const GgufType* gguf_type(std::int32_t id);

// The number of a type; nullopt for those that GGUF does not have.
std::optional<std::int32_t> gguf_type_id(tensor::DType dtype);

// "F32, F16, ...": for messages.
std::string supported_type_names();

}  // namespace weir::load
