#include "api/http_request_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "api/http_server.h"
#include "api/http_text.h"

namespace weir::api {

namespace http = boost::beast::http;

struct HttpRequestParser::Impl {
  http::request_parser<http::string_body> beast;
  bool header_seen = false;
};

HttpRequestParser::HttpRequestParser(const HttpLimits& limits) : limits_(limits), impl_(std::make_unique<Impl>()) {
  impl_->beast.eager(true);
  impl_->beast.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  impl_->beast.body_limit(limits.body_bytes);
}

HttpRequestParser::~HttpRequestParser() = default;

HttpRequestParser::State HttpRequestParser::refuse(int status, ErrorCode code, std::string message) {
  refusal_ = {status, {code, std::move(message), {}}};
  return State::kRefused;
}

HttpRequestParser::State HttpRequestParser::feed(std::string& in) {
  auto& beast = impl_->beast;
  while (!in.empty()) {
    boost::system::error_code error;
    const std::size_t used = beast.put(boost::asio::buffer(in), error);
    in.erase(0, used);
    if (beast.is_header_done() && !std::exchange(impl_->header_seen, true)) {
      if (const State state = check_header(); state == State::kRefused) return state;
    }
    if (error == http::error::need_more) {
      // Chunk extensions and trailers are the one thing Beast sets no limit to.
      if (impl_->header_seen && in.size() > limits_.header_bytes) {
        return refuse(400, ErrorCode::kInvalidArgument, "a chunk header is longer than a request header may be");
      }
      break;
    }
    if (error == http::error::body_limit) {
      return refuse(
          413, ErrorCode::kTooLarge,
          fmt::format("the request body is larger than {} bytes, the most this server takes", limits_.body_bytes));
    }
    if (error == http::error::header_limit) {
      return refuse(
          431, ErrorCode::kTooLarge,
          fmt::format("the request header is larger than {} bytes, the most this server takes", limits_.header_bytes));
    }
    if (error)
      return refuse(400, ErrorCode::kInvalidArgument, fmt::format("not a valid HTTP request: {}", error.message()));
    if (beast.is_done()) return State::kComplete;
    if (used == 0) break;
  }
  return impl_->header_seen ? State::kBody : State::kHeader;
}

HttpRequestParser::State HttpRequestParser::check_header() {
  const auto& request = impl_->beast.get();
  if (request.count(http::field::transfer_encoding) != 0) {
    if (!impl_->beast.chunked() || !boost::beast::iequals(request[http::field::transfer_encoding], "chunked")) {
      return refuse(501, ErrorCode::kInvalidArgument, "the only transfer encoding this server takes is 'chunked'");
    }
    if (request.count(http::field::content_length) != 0) {
      return refuse(400, ErrorCode::kInvalidArgument,
                    "a request has either a Content-Length or a Transfer-Encoding, not both");
    }
  }
  const auto hosts = request.count(http::field::host);
  if (hosts > 1 || (request.version() >= 11 && hosts == 0)) {
    return refuse(400, ErrorCode::kInvalidArgument, "an HTTP/1.1 request needs exactly one Host header");
  }
  const auto target = request.target();
  if (!parse_target({target.data(), target.size()}))
    return refuse(400, ErrorCode::kInvalidArgument, "the request target is not a path");
  const auto coding = request[http::field::content_encoding];
  if (!coding.empty() && !boost::beast::iequals(coding, "identity")) {
    return refuse(
        415, ErrorCode::kInvalidArgument,
        fmt::format("this server takes no compressed bodies, and Content-Encoding is '{}'; send the body as it is",
                    std::string_view(coding.data(), std::min<std::size_t>(coding.size(), 80))));
  }
  const auto expect = request[http::field::expect];
  const bool wants_continue = boost::beast::iequals(expect, "100-continue");
  if (!expect.empty() && !wants_continue && request.version() >= 11) {
    return refuse(417, ErrorCode::kInvalidArgument,
                  fmt::format("Expect is '{}', but this server knows 100-continue only",
                              std::string_view(expect.data(), std::min<std::size_t>(expect.size(), 80))));
  }
  continue_ = !impl_->beast.is_done() && wants_continue;
  return State::kBody;
}

bool HttpRequestParser::take_continue() {
  return std::exchange(continue_, false);
}

std::size_t HttpRequestParser::body_bytes() const {
  return impl_->beast.get().body().size();
}

HttpRequestParser::Request HttpRequestParser::head() const {
  const auto& message = impl_->beast.get();
  const auto field = [&](http::field name) { return std::string(message[name]); };
  Request out;
  out.keep_alive = message.keep_alive();
  out.http_1_1 = message.version() >= 11;
  auto& request = out.request;
  request.method = std::string(message.method_string());
  auto target = parse_target({message.target().data(), message.target().size()}).value();
  request.path = std::move(target.path);
  request.host = target.host ? std::move(*target.host) : field(http::field::host);
  request.origin = field(http::field::origin);
  request.authorization = field(http::field::authorization);
  out.head_only = request.method == "HEAD";
  if (out.head_only) request.method = "GET";
  return out;
}

HttpRequestParser::Request HttpRequestParser::take() {
  Request out = head();
  out.request.body = std::move(impl_->beast.get().body());
  return out;
}

}  // namespace weir::api
