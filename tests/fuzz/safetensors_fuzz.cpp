// Arbitrary bytes as a safetensors file: an answer or an error, never a crash. What is accepted covers its data
// exactly.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "load/safetensors.h"
#include "tensor/dtype.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto contents = weir::load::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
  if (!contents) return 0;
  std::size_t total = 0;
  for (const auto& weight : contents->tensors) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(weight.data.data());
    if (!weight.data.empty() && (begin < data || begin + weight.data.size() > data + size)) std::abort();
    total += weight.data.size();
  }
  if (total > size) std::abort();
  return 0;
}
