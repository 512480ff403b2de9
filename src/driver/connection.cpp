#include "driver/connection.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "base/clock.h"

namespace weir::driver {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::uint32_t kHeaderBytes = 64 * 1024;

}  // namespace

Connection::Connection(asio::io_context& io, const Endpoints& endpoints, Done done)
    : io_(io), endpoints_(endpoints), done_(std::move(done)), socket_(io), chunk_(kReadBytes, '\0') {}

void Connection::start(std::string bytes, RequestRecord& record) {
  bytes_ = std::move(bytes);
  record_ = &record;
  ++turn_;
  parser_.reset();
  reader_.reset();
  if (open_) {
    write();
  } else {
    connect();
  }
}

void Connection::connect() {
  ++opened_;
  kept_ = false;
  in_.clear();
  socket_ = asio::ip::tcp::socket(io_);
  asio::async_connect(socket_, endpoints_,
                      [self = shared_from_this(), turn = turn_](error_code error, const asio::ip::tcp::endpoint&) {
                        if (turn != self->turn_ || self->record_ == nullptr) return;
                        if (error) return self->lost("cannot connect: " + error.message());
                        error_code ignored;
                        self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
                        self->open_ = true;
                        self->write();
                      });
}

void Connection::write() {
  record_->sent_s = monotonic_s();
  parser_.emplace();
  parser_->eager(true);
  parser_->header_limit(kHeaderBytes);
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // ReplyReader has limits of its own
  asio::async_write(socket_, asio::buffer(bytes_),
                    // What went wrong shows in reading; a server may also answer before it has read all.
                    [self = shared_from_this()](error_code, std::size_t) {});
  read();
}

void Connection::read() {
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this(), turn = turn_](error_code error, std::size_t bytes) {
                            if (turn == self->turn_ && self->record_ != nullptr) self->on_read(error, bytes);
                          });
}

void Connection::on_read(const error_code& error, std::size_t bytes) {
  const double now_s = monotonic_s();
  if (error) {
    const bool answered = record_->first_byte_s > 0;
    if (!answered && kept_) {
      ++turn_;
      open_ = false;
      return connect();
    }
    error_code end;
    if (answered && error == asio::error::eof) {
      parser_->put_eof(end);  // a body without length ends with the connection
      if (!end && parser_->is_done()) {
        if (reader_) reader_->end(now_s);
        return finish(false);
      }
    }
    return lost(answered ? "the connection broke in the middle of the answer: " + error.message()
                         : "the connection broke before the answer: " + error.message());
  }
  if (record_->first_byte_s == 0) record_->first_byte_s = now_s;
  const auto room = in_.prepare(bytes);
  std::copy_n(chunk_.data(), bytes, static_cast<char*>(room.data()));
  in_.commit(bytes);
  if (parse(now_s)) read();
}

// False: the request has ended.
bool Connection::parse(double now_s) {
  error_code error;
  while (in_.size() > 0 && !parser_->is_done()) {
    const std::size_t used = parser_->put(in_.data(), error);
    in_.consume(used);
    if (error && error != http::error::need_more) {
      lost("the answer is no HTTP: " + error.message());
      return false;
    }
    if (used == 0 || error) break;
  }
  if (!parser_->is_header_done()) return true;
  if (!reader_) {
    const auto& head = parser_->get();
    const auto type = head[http::field::content_type];
    const bool events = type.substr(0, 17) == "text/event-stream";
    reader_.emplace(*record_, static_cast<int>(head.result_int()), events);
  }
  std::string& body = parser_->get().body();
  const bool good = reader_->take(body, now_s);
  body.clear();
  if (!good) {
    record_->done_s = now_s;
    finish(false);  // what else comes of this answer does not matter
    return false;
  }
  if (!parser_->is_done()) return true;
  reader_->end(now_s);
  finish(parser_->keep_alive() && in_.size() == 0);
  return false;
}

void Connection::give_up(const std::string& why) {
  if (record_ != nullptr) lost(why);
}

void Connection::lost(const std::string& why) {
  if (record_->error.empty()) record_->error = why;
  record_->done_s = monotonic_s();
  finish(false);
}

void Connection::finish(bool reusable) {
  if (!reusable) {
    error_code ignored;
    socket_.close(ignored);
    open_ = false;
  }
  kept_ = true;
  record_ = nullptr;
  ++turn_;
  done_(shared_from_this(), reusable);
}

}  // namespace weir::driver
