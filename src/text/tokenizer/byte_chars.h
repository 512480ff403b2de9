// GPT-2's printable characters for the 256 bytes, in which byte-level vocabularies are written ("Ġ" is the space).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::text {

std::string bytes_to_chars(std::string_view bytes);
// nullopt if a character stands for no byte.
std::optional<std::string> chars_to_bytes(std::string_view chars);

}  // namespace weir::text
