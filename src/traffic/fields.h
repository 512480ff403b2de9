// Reading what people and files write: fields between separators, numbers that are all of a field.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "base/result.h"

namespace weir::traffic {

// Never empty.
inline std::vector<std::string_view> split_fields(std::string_view text, char separator) {
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
  if (!value || !(*value >= least && *value <= most)) return std::nullopt;
  return value;
}
inline std::optional<double> whole_in(std::string_view text, double least, double most) {
  const auto value = number_in(text, least, most);
  return value && *value == std::floor(*value) ? value : std::nullopt;
}

// The same of an option, with an error that names it.
inline Result<double> number_field(const char* option, std::string_view text, double least, double most) {
  if (const auto value = number_in(text, least, most)) return *value;
  return fail_at(option, ErrorCode::kInvalidArgument, "--{}: '{}' is not a number of {:g} to {:g}", option,
                 printable(std::string(text.substr(0, 80))), least, most);
}

}  // namespace weir::traffic
