#include "load/gguf_keys.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weir::load {
namespace {

struct Describe {
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return fmt::format("{}", v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string&) const { return "a string"; }
  template <class T>
  std::string operator()(const std::vector<T>& array) const {
    return fmt::format("an array of {}", array.size());
  }
};

}  // namespace

std::string describe(const GgufValue& value) {
  return std::visit(Describe{}, value);
}

const GgufValue* GgufKeys::find(std::string_view key) const {
  const auto found = gguf_.metadata().find(full(key));
  return found == gguf_.metadata().end() ? nullptr : &found->second;
}

bool has_tensor(const GgufFile& file, std::string_view name) {
  return std::ranges::find(file.tensors(), name, &Weight::name) != file.tensors().end() ||
         std::ranges::find(file.unsupported_tensors(), name, &UnsupportedTensor::name) !=
             file.unsupported_tensors().end();
}

Result<std::optional<std::int64_t>> GgufKeys::integer(std::string_view key, Range range) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<std::int64_t> number;
  if (const auto* scalar = std::get_if<std::int64_t>(value)) number = *scalar;
  if (const auto* array = std::get_if<std::vector<std::int64_t>>(value); array != nullptr && !array->empty()) {
    if (std::ranges::adjacent_find(*array, std::not_equal_to{}) != array->end()) {
      return fail_at(full(key), ErrorCode::kUnsupported, "{}: \"{}\" differs between layers, which is not supported",
                     file_, full(key));
    }
    number = array->front();
  }
  if (!number || *number < range.low || *number > range.high) {
    return fail_at(full(key), ErrorCode::kCorruptFile, "{}: \"{}\" is {}; an integer from {} to {} expected", file_,
                   full(key), number ? fmt::format("{}", *number) : describe(*value), range.low, range.high);
  }
  return number;
}

Result<std::int64_t> GgufKeys::required(std::string_view key, Range range) const {
  WEIR_TRY(const auto value, integer(key, range));
  if (!value)
    return fail_at(full(key), ErrorCode::kCorruptFile, "{}: metadata key \"{}\" is missing", file_, full(key));
  return *value;
}

Result<std::optional<double>> GgufKeys::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = gguf_.get_double(full(key));
  if (!number || !std::isfinite(*number)) {
    return fail_at(full(key), ErrorCode::kCorruptFile, "{}: \"{}\" is {}; a number expected", file_, full(key),
                   describe(*value));
  }
  return number;
}

Result<double> GgufKeys::number_or(std::string_view key, double otherwise) const {
  WEIR_TRY(const auto value, number(key));
  return value.value_or(otherwise);
}

Result<bool> GgufKeys::boolean_or(std::string_view key, bool otherwise) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return otherwise;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  return fail_at(full(key), ErrorCode::kCorruptFile, "{}: \"{}\" is {}; true or false expected", file_, full(key),
                 describe(*value));
}

Result<std::vector<float>> GgufKeys::vector_tensor(std::string_view name, std::size_t count) const {
  const auto& tensors = gguf_.tensors();
  const auto found = std::ranges::find(tensors, name, &Weight::name);
  std::vector<float> values;
  if (found == tensors.end()) return values;
  if (found->dtype != tensor::DType::kF32 || found->data.size() != count * sizeof(float)) {
    return fail(ErrorCode::kCorruptFile, "{}: tensor \"{}\" has {} bytes of {}; {} F32 values expected", file_, name,
                found->data.size(), tensor::info(found->dtype).name, count);
  }
  values.resize(count);
  std::memcpy(values.data(), found->data.data(), found->data.size());
  for (const float value : values) {
    if (!std::isfinite(value) || value <= 0) {
      return fail(ErrorCode::kCorruptFile, "{}: tensor \"{}\" holds {}; positive numbers expected", file_, name, value);
    }
  }
  return values;
}

}  // namespace weir::load
