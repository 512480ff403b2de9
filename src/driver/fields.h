// Small readers of what the command line and traces hold.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "base/result.h"

namespace weir::driver {

// Never empty.
inline std::vector<std::string_view> split_fields(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// A number of [least, most]. `what`: the option or field.
inline Result<double> number_field(const char* what, std::string_view text, double least, double most) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !(value >= least && value <= most)) {
    return fail_at(what, ErrorCode::kInvalidArgument, "--{}: '{}' is not a number of {:g} to {:g}", what,
                   printable(std::string(text.substr(0, 80))), least, most);
  }
  return value;
}

}  // namespace weir::driver
