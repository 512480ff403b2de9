// Reading what people and files write: fields between separators, numbers that are all of a field.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weir::plan::sim {

inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t end = text.find(separator);
    fields.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return fields;
    text.remove_prefix(end + 1);
  }
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// A finite number of least to most.
inline std::optional<double> number_in(std::string_view text, double least, double most) {
  const auto value = number<double>(text);
  if (!value || !std::isfinite(*value) || *value < least || *value > most) return std::nullopt;
  return value;
}

}  // namespace weir::plan::sim
