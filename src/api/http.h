// What the routes see of HTTP: a whole request in, and a Reply to answer through. No sockets here.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::api {

struct HttpRequest {
  std::string method;  // "GET", "POST", ...; HEAD arrives as GET, its body is dropped by the server
  std::string path;    // percent-decoded, without the query
  std::string body;
  std::string host;                   // the Host header; empty if there was none
  std::string origin;                 // the Origin header
  std::string authorization;          // the Authorization header
  std::string peer;                   // "127.0.0.1:51234", for the log
  double arrived_s = 0.0;             // monotonic seconds: the last byte of the request was there
  std::shared_ptr<void> body_ticket;  // the body counts against the server's memory for bodies until this goes
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The answer to one request. Exactly one of: send(); or begin_stream(), any number of write(), end(). All may be called
// from any thread and do nothing once the client has gone. A Reply that is dropped unanswered closes the connection.
class Reply {
 public:
  virtual ~Reply() = default;

  virtual void send(int status, std::string_view content_type, std::string body, HttpHeaders headers = {}) = 0;

  // A body of unknown length. Pieces that are written while the socket is busy travel together.
  virtual void begin_stream(std::string_view content_type) = 0;
  virtual void write(std::string_view piece) = 0;
  virtual void end() = 0;

  // `gone` is called once, on the I/O thread, if the client leaves (or reads so slowly that its connection was given
  // up) before the answer is complete; at once if that has already happened.
  virtual void on_gone(std::function<void()> gone) = 0;
};

// Asked with the header of a request (no body) while the body is still to come. False: the body is not worth reading;
// the handler gets the request without it, and the connection closes after the answer.
using HttpGate = std::function<bool(const HttpRequest& head)>;

using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<Reply>)>;

}  // namespace weir::api
