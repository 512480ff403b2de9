#include "api/http_connection.h"

#include <boost/asio/post.hpp>
#include <optional>

#include "api/clock.h"
#include "api/errors.h"
#include "api/http_text.h"

namespace weir::api {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 16 * 1024;
// After a refusal the client may still be sending: closing at once would reset the connection before it has read why.
constexpr std::chrono::seconds kLinger{2};
constexpr std::size_t kLingerBytes = 64 * 1024 * 1024;

class ConnectionReply final : public Reply {
 public:
  ConnectionReply(std::shared_ptr<Connection> connection, std::shared_ptr<Exchange> exchange)
      : connection_(std::move(connection)), exchange_(std::move(exchange)) {}

  ~ConnectionReply() override {
    bool finished = false;
    {
      std::lock_guard lock(exchange_->mutex);
      finished = exchange_->finished || exchange_->gone;
    }
    if (finished) return;
    asio::post(connection_->context().io,
               [connection = connection_, exchange = exchange_] { connection->abort(exchange); });
  }

  void send(int status, std::string_view content_type, std::string body, HttpHeaders headers) override {
    add(true, false, [&](std::string& out) {
      append_head(out, {status, content_type, body.size(), false, keep_alive()}, headers);
      if (!exchange_->head_only) out.append(body);
    });
  }

  void begin_stream(std::string_view content_type) override {
    // An HTTP/1.0 client learns where the body ends from the end of the connection.
    add(exchange_->head_only, true, [&](std::string& out) {
      append_head(out, {200, content_type, std::nullopt, exchange_->can_chunk, keep_alive()},
                  {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}});
    });
  }

  void write(std::string_view piece) override {
    if (exchange_->head_only) return;
    add(false, true,
        [&](std::string& out) { exchange_->can_chunk ? append_chunk(out, piece) : void(out.append(piece)); });
  }

  void end() override {
    if (exchange_->head_only) return;
    add(true, true, [&](std::string& out) {
      if (exchange_->can_chunk) out.append(kLastChunk);
    });
  }

  void on_gone(std::function<void()> gone) override {
    std::lock_guard lock(exchange_->mutex);
    if (exchange_->finished) return;
    if (exchange_->gone) {
      asio::post(connection_->context().io, std::move(gone));
    } else {
      exchange_->on_gone = std::move(gone);
    }
  }

 private:
  bool keep_alive() const { return exchange_->keep_alive && !connection_->context().draining; }

  template <class Append>
  void add(bool last, bool streaming, Append&& append) {
    std::function<void()> forget;  // destroyed outside the lock: it may own the last reference to a request
    {
      std::lock_guard lock(exchange_->mutex);
      if (exchange_->finished || exchange_->gone) return;
      append(exchange_->outbox);
      if (last) {
        exchange_->finished = true;
        forget.swap(exchange_->on_gone);
      }
      if (std::exchange(exchange_->flush_posted, true)) return;
    }
    asio::post(connection_->context().io,
               [connection = connection_, exchange = exchange_, streaming] { connection->flush(exchange, streaming); });
  }

  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace

Connection::Connection(ConnectionContext& context, asio::ip::tcp::socket socket)
    : context_(context), socket_(std::move(socket)), read_chunk_(kReadBytes, '\0') {
  error_code error;
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  socket_.non_blocking(true, error);
  const auto endpoint = socket_.remote_endpoint(error);
  if (!error) peer_ = fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
}

void Connection::start() {
  next_request();
  read_deadline_ = Clock::now() + context_.limits.first;
}

void Connection::next_request() {
  state_ = State::kReading;
  account_body(0);
  parser_.reset();
  read_deadline_ = Clock::now() + context_.limits.idle;
  parse();
  arm_read();
}

// Body bytes of the request being read; 0 gives them back.
void Connection::account_body(std::size_t bytes) {
  *context_.body_bytes += bytes - counted_body_bytes_;
  counted_body_bytes_ = bytes;
}

void Connection::arm_read() {
  if (reading_ || state_ == State::kClosed) return;
  // Back-pressure on a client that sends requests ahead; what it has sent waits in the kernel.
  if (state_ == State::kAnswering && in_.size() >= context_.limits.read_ahead_bytes) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(read_chunk_), [self = shared_from_this()](error_code error, std::size_t bytes) {
    self->reading_ = false;
    self->on_read(error, bytes);
  });
}

void Connection::on_read(const error_code& error, std::size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error) {
    bool finished = false;
    if (exchange_ && error == asio::error::eof) {
      std::lock_guard lock(exchange_->mutex);
      finished = exchange_->finished;
    }
    // A client that closes its sending side once the answer is complete still gets all of it.
    if (finished) {
      exchange_->keep_alive = false;
      return;
    }
    return close();
  }
  if (state_ == State::kLingering) {
    discarded_ += bytes;
    if (discarded_ > kLingerBytes) return close();
  } else {
    in_.append(read_chunk_, 0, bytes);
    parse();
  }
  arm_read();
}

void Connection::parse() {
  if (state_ != State::kReading) return;
  if (!parser_) {
    // Empty lines before a request are nothing (RFC 9112, 2.2): some clients end a body with one.
    std::size_t empty = 0;
    while (std::string_view(in_).substr(empty).starts_with("\r\n")) empty += 2;
    in_.erase(0, empty);
    if (in_.empty() || in_ == "\r") return;
    parser_ = std::make_unique<HttpRequestParser>(context_.limits);
    header_checked_ = false;
    read_deadline_ = Clock::now() + context_.limits.header;
  }
  const auto state = parser_->feed(in_);
  if (state == HttpRequestParser::State::kRefused) {
    const auto refusal = parser_->refusal();
    return refuse(refusal.status, refusal.error);
  }
  if (state == HttpRequestParser::State::kBody && refused_by_header()) return;
  account_body(parser_->body_bytes());
  if (*context_.body_bytes > context_.limits.all_bodies_bytes) {
    return refuse(503, {ErrorCode::kOverloaded,
                        fmt::format("request bodies in flight exceed {} bytes; try again later",
                                    context_.limits.all_bodies_bytes),
                        {}});
  }
  if (state == HttpRequestParser::State::kComplete) return dispatch();
  if (state == HttpRequestParser::State::kBody) read_deadline_ = Clock::now() + context_.limits.body_stall;
  if (parser_->take_continue()) {
    unsent_.append("HTTP/1.1 100 Continue\r\n\r\n");
    start_write();
  }
}

bool Connection::refused_by_header() {
  if (std::exchange(header_checked_, true) || !context_.gate) return false;
  auto parsed = parser_->head();
  auto& request = parsed.request;
  request.peer = peer_;
  request.arrived_s = monotonic_s();
  if (context_.gate(request)) return false;
  parser_.reset();
  begin_exchange(false, parsed.head_only, parsed.http_1_1);
  context_.handler(std::move(request), std::make_shared<ConnectionReply>(shared_from_this(), exchange_));
  return true;
}

void Connection::dispatch() {
  auto parsed = parser_->take();
  parser_.reset();
  auto& request = parsed.request;
  request.peer = peer_;
  request.arrived_s = monotonic_s();
  // The bytes are the request's from here on.
  request.body_ticket = std::shared_ptr<void>(
      nullptr,
      [total = context_.body_bytes, bytes = std::exchange(counted_body_bytes_, 0)](void*) { *total -= bytes; });
  begin_exchange(parsed.keep_alive, parsed.head_only, parsed.http_1_1);
  context_.handler(std::move(request), std::make_shared<ConnectionReply>(shared_from_this(), exchange_));
}

void Connection::begin_exchange(bool keep_alive, bool head_only, bool http_1_1) {
  state_ = State::kAnswering;
  read_deadline_ = Clock::time_point::max();
  exchange_ = std::make_shared<Exchange>();
  ++context_.answering;
  exchange_->can_chunk = http_1_1;
  exchange_->keep_alive = keep_alive && http_1_1;
  exchange_->head_only = head_only;
}

void Connection::refuse(int status, Error error) {
  account_body(0);
  parser_.reset();
  begin_exchange(false, false, true);
  ConnectionReply(shared_from_this(), exchange_).send(status, "application/json", error_body(error), {});
}

void Connection::flush(const std::shared_ptr<Exchange>& exchange, bool streaming) {
  if (state_ == State::kClosed || exchange != exchange_) return;
  // Looked at before the new piece is added: one large piece is no sign of a slow reader, a second one behind it is.
  if (streaming && unsent_.size() + sending_.size() - sent_ > context_.limits.unsent_stream_bytes) return close();
  {
    std::lock_guard lock(exchange->mutex);
    exchange->flush_posted = false;
    unsent_.append(exchange->outbox);
    exchange->outbox.clear();
  }
  start_write();
}

void Connection::abort(const std::shared_ptr<Exchange>& exchange) {
  if (exchange == exchange_) close();
}

void Connection::start_write() {
  if (writing_ || state_ == State::kClosed) return;
  if (sent_ == sending_.size()) {
    sending_.clear();
    sending_.swap(unsent_);
    sent_ = 0;
  }
  if (sending_.empty()) return finish_exchange();
  writing_ = true;
  write_deadline_ = Clock::now() + context_.limits.write_stall;
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                           [self = shared_from_this()](error_code error, std::size_t bytes) {
                             self->writing_ = false;
                             self->on_written(error, bytes);
                           });
}

void Connection::on_written(const error_code& error, std::size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error) return close();
  sent_ += bytes;
  write_deadline_ = Clock::time_point::max();
  start_write();
}

// Everything there was to send has been sent: the answer may be complete.
void Connection::finish_exchange() {
  if (!exchange_) return;
  {
    std::lock_guard lock(exchange_->mutex);
    if (!exchange_->finished || !exchange_->outbox.empty()) return;
  }
  const bool keep = exchange_->keep_alive && !context_.draining;
  exchange_.reset();
  --context_.answering;
  if (keep) return next_request();
  error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  state_ = State::kLingering;
  in_.clear();
  read_deadline_ = Clock::now() + kLinger;
  arm_read();
}

void Connection::check_deadlines(Clock::time_point now) {
  if (now >= write_deadline_) return close();
  if (now < read_deadline_) return;
  if (state_ == State::kReading && parser_) {
    return refuse(408, {ErrorCode::kInvalidArgument, "the request did not arrive in time", {}});
  }
  close();
}

void Connection::close_if_idle() {
  if (state_ == State::kReading && !parser_) close();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  state_ = State::kClosed;
  error_code error;
  socket_.close(error);
  account_body(0);
  parser_.reset();
  if (const auto exchange = std::exchange(exchange_, nullptr)) {
    --context_.answering;
    std::function<void()> gone;
    {
      std::lock_guard lock(exchange->mutex);
      exchange->gone = true;
      gone.swap(exchange->on_gone);
    }
    if (gone) gone();
  }
  context_.open.erase(self);
}

}  // namespace weir::api
