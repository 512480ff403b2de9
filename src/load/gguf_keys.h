// Checked access to the hyper-parameters of a GGUF file, "<architecture>.KEY". Key names: the GGUF specification.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/gguf.h"
#include "load/limits.h"

namespace weir::load {

// A value for an error message.
std::string describe(const GgufValue& value);

bool has_tensor(const GgufFile& file, std::string_view name);

class GgufKeys {
 public:
  GgufKeys(const GgufFile& gguf, std::string architecture, const std::string& file)
      : gguf_(gguf), architecture_(std::move(architecture)), file_(file) {}

  const GgufValue* find(std::string_view key) const;
  bool has_tensor(std::string_view name) const { return load::has_tensor(gguf_, name); }

  // An array has one number per layer (GGUF allows it for heads and FFN sizes); they must be equal.
  Result<std::optional<std::int64_t>> integer(std::string_view key, Range range) const;
  Result<std::int64_t> required(std::string_view key, Range range) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<double> number_or(std::string_view key, double otherwise) const;
  Result<bool> boolean_or(std::string_view key, bool otherwise) const;
  // The F32 vector in a tensor, which must have `count` elements; empty where there is no such tensor.
  Result<std::vector<float>> vector_tensor(std::string_view name, std::size_t count) const;

  std::string full(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  const std::string& file() const { return file_; }
  const GgufFile& gguf() const { return gguf_; }
  const std::string& architecture() const { return architecture_; }

 private:
  const GgufFile& gguf_;
  std::string architecture_;
  const std::string& file_;
};

}  // namespace weir::load
