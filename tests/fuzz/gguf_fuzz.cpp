// Arbitrary bytes as a GGUF file: an answer or an error, never a crash. Whatever opens as a model must have weights of
// the sizes it claims.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "load/model_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto gguf = weir::load::GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!gguf) return 0;
  const auto model = weir::load::model_from_gguf(*std::move(gguf), "fuzz.gguf");
  if (!model) return 0;
  for (const auto& weight : model->weights->all()) {
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < weight.shape.size(); ++i) rows *= weight.shape[i];
    const auto bytes = rows * weir::tensor::row_bytes(weight.dtype, weight.shape.back());
    if (bytes != static_cast<std::int64_t>(weight.data.size())) std::abort();
  }
  return 0;
}
