#include "api/access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>
#include <optional>

namespace weir::api {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// "host:8000" -> "host", "[::1]:8000" -> "::1".
std::string_view without_port(std::string_view host) {
  if (!host.empty() && host.front() == '[') return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool consume_scheme(std::string_view& text, std::string_view scheme) {
  if (text.size() <= scheme.size() || lower(text.substr(0, scheme.size())) != scheme || text[scheme.size()] != ' ')
    return false;
  text.remove_prefix(scheme.size());
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return true;
}

std::optional<std::string> base64_decode(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    std::uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<std::uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<std::uint32_t>(c - 'a' + 26);
    } else if (c >= '0' && c <= '9') {
      value = static_cast<std::uint32_t>(c - '0' + 52);
    } else if (c == '+') {
      value = 62;
    } else if (c == '/') {
      value = 63;
    } else {
      return std::nullopt;
    }
    bits = bits << 6 | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return out;
}

}  // namespace

bool equal_constant_time(std::string_view a, std::string_view b) {
  // Digests have one length, so the lengths of the texts do not show either.
  std::array<unsigned char, SHA256_DIGEST_LENGTH> x{}, y{};
  SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), x.data());
  SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), y.data());
  return CRYPTO_memcmp(x.data(), y.data(), x.size()) == 0;
}

AccessPolicy::AccessPolicy(std::string api_key, bool loopback, std::string host)
    : api_key_(std::move(api_key)), loopback_(loopback), host_(lower(host)) {}

bool AccessPolicy::key_ok(std::string_view authorization) const {
  if (consume_scheme(authorization, "bearer")) return equal_constant_time(authorization, api_key_);
  if (consume_scheme(authorization, "basic")) {
    const auto decoded = base64_decode(authorization);
    const auto colon = decoded ? decoded->find(':') : std::string::npos;
    return colon != std::string::npos && equal_constant_time(std::string_view(*decoded).substr(colon + 1), api_key_);
  }
  return false;
}

bool AccessPolicy::host_ok(std::string_view host) const {
  const std::string name = lower(without_port(host));
  // Host may be missing (HTTP/1.0): no browser leaves it out.
  return name.empty() || name == "localhost" || name.ends_with(".localhost") || name == "::1" || name == host_ ||
         (name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string::npos);
}

Status AccessPolicy::check(const HttpRequest& request) const {
  if (loopback_ && !host_ok(request.host)) {
    return fail(ErrorCode::kInvalidArgument,
                "this server answers on this machine only and does not know the host '{}'; use localhost or 127.0.0.1",
                request.host.substr(0, 80));
  }
  if (!request.origin.empty()) {
    const std::string_view origin = request.origin;
    const auto scheme_end = origin.find("://");
    if (scheme_end == std::string_view::npos || lower(origin.substr(scheme_end + 3)) != lower(request.host)) {
      return fail(ErrorCode::kInvalidArgument, "requests from pages of another origin ('{}') are not answered",
                  request.origin.substr(0, 80));
    }
  }
  if (!api_key_.empty() && !key_ok(request.authorization)) {
    return fail(ErrorCode::kUnauthorized, "{}; send the server's key as 'Authorization: Bearer KEY'",
                request.authorization.empty() ? "no API key was given" : "the API key is not the one of this server");
  }
  return {};
}

}  // namespace weir::api
