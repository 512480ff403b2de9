// The parser of one GGUF file's bytes. GgufFile (gguf.h) is what others use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "load/gguf.h"

namespace weir::load {

// One file's table of contents. The tensors' spans point into its bytes.
struct GgufContents {
  std::uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<Weight> tensors;
  std::vector<UnsupportedTensor> unsupported;
};

// Every count and offset is checked before it is used; nothing is allocated beyond a small multiple of what was read.
// `file` is named in errors.
Result<GgufContents> parse_gguf(std::span<const std::byte> bytes, std::string_view file);

// What there is of a file, whether parse_gguf() takes it or not: all that it reads before it finds a fault. The tensors
// of a faulty file count as unsupported, for no byte of them may be read.
struct PartialContents {
  GgufContents contents;
  std::optional<Error> fault;
};
PartialContents parse_damaged_gguf(std::span<const std::byte> bytes, std::string_view file);

}  // namespace weir::load
