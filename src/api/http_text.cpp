#include "api/http_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <iterator>

namespace weir::api {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view status_text(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

std::optional<RequestTarget> parse_target(std::string_view target) {
  RequestTarget out;
  for (const boost::beast::string_view scheme : {"http://", "https://"}) {
    if (!boost::beast::iequals({target.data(), std::min(target.size(), scheme.size())}, scheme)) continue;
    target.remove_prefix(scheme.size());
    const auto host = target.substr(0, target.find_first_of("/?"));
    if (host.empty() || host.find('@') != std::string_view::npos) return std::nullopt;
    out.host = std::string(host);
    target.remove_prefix(host.size());
    if (target.empty() || target.front() == '?') {
      out.path.push_back('/');
      return out;
    }
  }
  if (target.empty() || target.front() != '/') return std::nullopt;
  auto path = percent_decode(target.substr(0, target.find('?')));
  if (!path) return std::nullopt;
  out.path = std::move(*path);
  return out;
}

void append_head(std::string& out, const ResponseHead& head, const HttpHeaders& more) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "HTTP/1.1 {} {}\r\nServer: weir\r\n", head.status, status_text(head.status));
  if (!head.content_type.empty()) fmt::format_to(to, "Content-Type: {}\r\n", head.content_type);
  if (head.content_length) fmt::format_to(to, "Content-Length: {}\r\n", *head.content_length);
  if (head.chunked) out.append("Transfer-Encoding: chunked\r\n");
  out.append("X-Content-Type-Options: nosniff\r\n");
  for (const auto& [name, value] : more) fmt::format_to(to, "{}: {}\r\n", name, value);
  out.append(head.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

void append_chunk(std::string& out, std::string_view piece) {
  if (piece.empty()) return;  // an empty chunk would end the body
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", piece.size());
  out.append(piece).append("\r\n");
}

}  // namespace weir::api
