// Small helpers that several vocabulary formats need.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::text {

// "<0x00>" to "<0xFF>", exactly six characters; nullopt for anything else.
std::optional<unsigned> parse_byte_token(std::string_view text);

// What is not of the alphabet is passed over.
std::string bytes_of_base64(std::string_view text);

std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace weir::text
