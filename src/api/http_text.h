// Small pure pieces of HTTP: status lines, percent-decoding, chunk framing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/http.h"

namespace weir::api {

std::string_view status_text(int status);

// "%41%2f" -> "A/"; nullopt for a broken escape or an escaped NUL.
std::optional<std::string> percent_decode(std::string_view text);

// A request target in origin form ("/a%20b?x=1" -> path "/a b") or absolute form ("http://host:1/a" -> host "host:1",
// path "/a"), RFC 9112 3.2; nullopt when it is neither.
struct RequestTarget {
  std::string path;
  std::optional<std::string> host;
};
std::optional<RequestTarget> parse_target(std::string_view target);

// Head of a response. `content_length` absent: the body follows in chunks if `chunked`, else until the connection
// closes.
struct ResponseHead {
  int status = 200;
  std::string_view content_type;
  std::optional<std::size_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
};
void append_head(std::string& out, const ResponseHead& head, const HttpHeaders& more);

void append_chunk(std::string& out, std::string_view piece);
constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace weir::api
