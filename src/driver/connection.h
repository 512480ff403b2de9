// Connection: one kept-alive HTTP/1.1 connection of the driver, one request at a time.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "driver/record.h"
#include "driver/reply_reader.h"

namespace weir::driver {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Endpoints = boost::asio::ip::tcp::resolver::results_type;
  // `reusable`: whether the connection can take another request.
  using Done = std::function<void(const std::shared_ptr<Connection>&, bool reusable)>;

  Connection(boost::asio::io_context& io, const Endpoints& endpoints, Done done);

  // Sends the bytes of a request, connecting first where that has not happened, and reads the answer into the record,
  // which must stay where it is until `done` is called. `bytes` are kept for one repetition: a kept connection that
  // the server closed meanwhile gives no answer at all, and the request is sent again on a new one.
  void start(std::string bytes, RequestRecord& record);
  // The request under way fails with this.
  void give_up(const std::string& why);
  const RequestRecord* record() const { return record_; }
  int opened() const { return opened_; }

 private:
  void connect();
  void write();
  void read();
  void on_read(const boost::system::error_code& error, std::size_t bytes);
  bool parse(double now_s);
  void lost(const std::string& why);
  void finish(bool reusable);

  boost::asio::io_context& io_;
  const Endpoints& endpoints_;
  Done done_;
  boost::asio::ip::tcp::socket socket_;
  std::string bytes_, chunk_;
  boost::beast::flat_buffer in_;
  using Parser = boost::beast::http::response_parser<boost::beast::http::string_body>;
  std::optional<Parser> parser_;
  std::optional<ReplyReader> reader_;
  RequestRecord* record_ = nullptr;
  bool open_ = false;
  bool kept_ = false;  // the connection has had an answer before
  int opened_ = 0;
  std::uint64_t turn_ = 0;  // of requests and sockets: what comes for an earlier one is of no interest
};

}  // namespace weir::driver
