// HttpRequestParser: bytes -> one HTTP/1.x request, or the reason why not. No sockets: this is what is fuzzed.
//
// Strict where leniency lets two readers disagree about where a request ends: one Host, one Content-Length, no other
// transfer encoding than chunked, and never both. The grammar is Boost.Beast's; what it sets no limit to is limited
// here.
#pragma once

#include <memory>
#include <string>

#include "api/http.h"
#include "base/result.h"

namespace weir::api {

struct HttpLimits;

class HttpRequestParser {
 public:
  enum class State { kHeader, kBody, kComplete, kRefused };

  explicit HttpRequestParser(const HttpLimits& limits);
  ~HttpRequestParser();

  // Reads on, and removes what it has read from the front of `in`; what is left belongs to the next request once this
  // one is complete.
  State feed(std::string& in);

  // True once, when the client waits for a go-ahead before it sends the body.
  bool take_continue();
  std::size_t body_bytes() const;  // received so far

  struct Request {
    HttpRequest request;  // without what only the connection knows
    bool keep_alive = false;
    bool head_only = false;
    bool http_1_1 = false;
  };
  Request head() const;  // kBody and kComplete; without the body
  Request take();        // kComplete

  struct Refusal {
    int status = 400;
    Error error;
  };
  const Refusal& refusal() const { return refusal_; }  // kRefused

 private:
  struct Impl;

  State refuse(int status, ErrorCode code, std::string message);
  State check_header();

  const HttpLimits& limits_;
  std::unique_ptr<Impl> impl_;
  Refusal refusal_;
  bool continue_ = false;
};

}  // namespace weir::api
