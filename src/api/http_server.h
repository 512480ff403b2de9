// HttpServer: HTTP/1.1 over plain TCP for any number of kept-alive connections on one I/O thread.
//
// Made for answers that take long: reading goes on while a request is being answered, so a client that leaves is
// noticed at once, whether its request is queued, computed or streamed. Everything a client can make grow has a limit
// (HttpLimits) and everything it can delay has a deadline. A client that closes or half-closes its side has left.
// Replies must not outlive the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "api/http.h"
#include "base/result.h"

namespace weir::api {

struct HttpLimits {
  std::size_t header_bytes = 16 * 1024;
  std::size_t body_bytes = 32 * 1024 * 1024;
  std::size_t all_bodies_bytes = 256 * 1024 * 1024;   // of all requests that are being received or parsed
  std::size_t unsent_stream_bytes = 4 * 1024 * 1024;  // a reader that falls further behind a stream is given up
  std::size_t read_ahead_bytes = 64 * 1024;           // of a next request, kept while the one before is answered
  int connections = 1024;
  std::chrono::milliseconds first{60'000};        // from the connection to the first byte of its first request
  std::chrono::milliseconds idle{75'000};         // between requests
  std::chrono::milliseconds header{10'000};       // from a request's first byte to the end of its header
  std::chrono::milliseconds body_stall{20'000};   // without a byte of the body
  std::chrono::milliseconds write_stall{30'000};  // without the client taking a byte
};

class HttpServer {
 public:
  // Binds and listens; nothing is accepted before start(). `handler` and `gate` are called on the I/O thread and must
  // not block. Without a gate every body is read. Port 0: any free one.
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& host, std::uint16_t port,
                                                    const HttpLimits& limits, HttpHandler handler, HttpGate gate = {});
  ~HttpServer();  // stop()

  std::uint16_t port() const;
  bool loopback() const;  // bound to an address that only this machine reaches
  int answering() const;  // requests whose answer has not left completely
  void start();
  // No new connections; idle ones are closed, the others after the answer they wait for.
  void stop_accepting();
  // Closes everything and joins the I/O thread.
  void stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::api
