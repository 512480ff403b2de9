// A configuration, a zero byte, and the bytes of a safetensors file: the quantised weights of a folder. An answer or an
// error; what is accepted can be made, whole and row by row.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "load/hf_quantised.h"
#include "load/json_fields.h"
#include "load/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* end = std::find(data, data + size, 0);
  if (end == data + size) return 0;
  const auto config = weir::load::parse_json(
      {reinterpret_cast<const char*>(data), static_cast<std::size_t>(end - data)}, "config.json");
  if (!config || !config->is_object()) return 0;
  const auto rest = std::as_bytes(std::span(end + 1, data + size));
  const auto contents = weir::load::parse_safetensors(rest, "fuzz.safetensors");
  if (!contents) return 0;
  const auto found =
      weir::load::derive_quantised(*config, "config.json", {contents->tensors, contents->unsupported},
                                   {.as_floats = [](std::string_view name) { return name.starts_with('f'); },
                                    .release = [](auto) {},
                                    .exact = size % 2 == 0});
  if (!found || found->derived == nullptr) return 0;
  for (const auto& weight : found->derived->tensors()) {
    found->derived->fetch(weight.data);
    const auto row = static_cast<std::size_t>(weir::tensor::row_bytes(weight.dtype, weight.shape.back()));
    found->derived->fetch(weight.data.last(row));
    found->derived->release(weight.data);
  }
  return 0;
}
