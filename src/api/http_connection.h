// Connection: one TCP connection, its request parser and the answer being given. Everything runs on the
// I/O thread, except what a Reply does on other threads, which goes through an Exchange.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "api/http_request_parser.h"
#include "api/http_server.h"

namespace weir::api {

class Connection;

// What the connections of a server share. I/O thread only, but for the atomics.
struct ConnectionContext {
  boost::asio::io_context io{1};
  HttpLimits limits;
  HttpHandler handler;
  HttpGate gate;
  std::atomic<bool> draining{false};
  std::atomic<int> answering{0};  // exchanges that have not ended
  std::shared_ptr<std::atomic<std::size_t>> body_bytes = std::make_shared<std::atomic<std::size_t>>(0);
  std::unordered_set<std::shared_ptr<Connection>> open;
};

// One request and its answer on the way out: filled by the Reply on any thread, emptied on the I/O thread.
struct Exchange {
  std::mutex mutex;
  std::string outbox;         // bytes for the socket
  bool finished = false;      // the outbox holds the end of the answer
  bool flush_posted = false;  // the I/O thread will look into the outbox
  bool gone = false;          // nobody reads any more
  std::function<void()> on_gone;

  // Set before anybody else sees it.
  bool keep_alive = true;
  bool head_only = false;
  bool can_chunk = true;  // HTTP/1.1
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(ConnectionContext& context, boost::asio::ip::tcp::socket socket);

  void start();
  void flush(const std::shared_ptr<Exchange>& exchange, bool streaming);
  void abort(const std::shared_ptr<Exchange>& exchange);  // the answer cannot be completed
  void check_deadlines(Clock::time_point now);
  void close_if_idle();
  void close();

  ConnectionContext& context() { return context_; }

 private:
  enum class State { kReading, kAnswering, kLingering, kClosed };

  void arm_read();
  void on_read(const boost::system::error_code& error, std::size_t bytes);
  void parse();
  void dispatch();
  bool refused_by_header();
  void refuse(int status, Error error);
  void begin_exchange(bool keep_alive, bool head_only, bool http_1_1);
  void start_write();
  void on_written(const boost::system::error_code& error, std::size_t bytes);
  void finish_exchange();
  void next_request();
  void account_body(std::size_t bytes);

  ConnectionContext& context_;
  boost::asio::ip::tcp::socket socket_;
  std::string peer_;
  State state_ = State::kReading;
  bool reading_ = false;  // a read is armed
  bool writing_ = false;
  std::string read_chunk_, in_;
  std::string unsent_, sending_;
  std::size_t sent_ = 0;  // bytes of sending_ that the socket took
  std::size_t discarded_ = 0;
  std::unique_ptr<HttpRequestParser> parser_;  // of the request being read; null between requests
  bool header_checked_ = false;                // by the gate
  std::size_t counted_body_bytes_ = 0;         // of it, in ConnectionContext::body_bytes
  std::shared_ptr<Exchange> exchange_;
  Clock::time_point read_deadline_ = Clock::time_point::max();
  Clock::time_point write_deadline_ = Clock::time_point::max();
};

}  // namespace weir::api
