// Bytes of a connection -> HTTP requests -> the JSON bodies of every route. The last byte says how large the pieces are
// in which they come.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/errors.h"
#include "api/http_request_parser.h"
#include "api/http_server.h"
#include "api/request_parser.h"
#include "base/check.h"

namespace {

using namespace weir::api;

void read_body(const std::string& body) {
  const auto json = parse_json(body);
  if (!json) {
    CHECK(parse_json(error_body(json.error())).has_value());
    return;
  }
  const ParseContext context{1000, {}};
  const auto check = [](const auto& parsed) {
    if (!parsed) CHECK(parse_json(error_body(parsed.error())).has_value(), "{}", parsed.error().message);
  };
  check(parse_completion_request(*json, context));
  check(parse_chat_request(*json, context));
  check(parse_tokenize_request(*json));
  check(parse_detokenize_request(*json, context.vocab_size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  HttpLimits limits;
  limits.header_bytes = 4096;
  limits.body_bytes = 1 << 16;
  const std::size_t piece = 1 + (size > 0 ? data[size - 1] : 0) * 64;

  std::string in;
  HttpRequestParser parser(limits);
  auto state = HttpRequestParser::State::kHeader;
  while (!rest.empty() && state != HttpRequestParser::State::kComplete && state != HttpRequestParser::State::kRefused) {
    in.append(rest.substr(0, piece));
    rest.remove_prefix(std::min(piece, rest.size()));
    state = parser.feed(in);
    CHECK(parser.body_bytes() <= limits.body_bytes);
    CHECK(in.size() <= limits.header_bytes + piece || state == HttpRequestParser::State::kComplete ||
          state == HttpRequestParser::State::kRefused);
  }
  if (state == HttpRequestParser::State::kComplete) read_body(parser.take().request.body);
  // Most inputs are no HTTP; as JSON they are still worth reading.
  read_body(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
