#include "api/http_server.h"

#include <gtest/gtest.h>

#include <mutex>

#include "api/testing.h"

namespace weir::api {
namespace {

using testing::eventually;
using testing::http_request;
using testing::RawClient;

// Answers /echo with the body and keeps every other reply for the test.
class HttpServerTest : public ::testing::Test {
 protected:
  void start(HttpLimits limits = {}, HttpGate gate = {}) {
    auto server = HttpServer::listen(
        "127.0.0.1", 0, limits,
        [this](HttpRequest request, std::shared_ptr<Reply> reply) {
          if (request.path == "/echo") return reply->send(200, "text/plain", request.method + " " + request.body);
          if (request.path == "/drop") return;
          std::lock_guard lock(mutex_);
          reply->on_gone([this] { ++gone_; });
          kept_.push_back(std::move(reply));
          requests_.push_back(std::move(request));
        },
        std::move(gate));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    server_->start();
  }
  void TearDown() override {
    if (server_) server_->stop();
    kept_.clear();
  }
  std::shared_ptr<Reply> kept(std::size_t i = 0) {
    EXPECT_TRUE(eventually([&] {
      std::lock_guard lock(mutex_);
      return kept_.size() > i;
    }));
    std::lock_guard lock(mutex_);
    return kept_[i];
  }

  std::unique_ptr<HttpServer> server_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Reply>> kept_;
  std::vector<HttpRequest> requests_;
  std::atomic<int> gone_{0};
};

TEST_F(HttpServerTest, answers_several_requests_on_one_connection) {
  start();
  RawClient client(server_->port());
  for (int i = 0; i < 3; ++i) {
    client.send(http_request("POST", "/echo", "abc"));
    const auto response = client.response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "POST abc");
    EXPECT_EQ(response.headers.at("connection"), "keep-alive");
  }
}

TEST_F(HttpServerTest, reads_a_request_that_comes_byte_by_byte) {
  start();
  RawClient client(server_->port());
  for (const char c : http_request("POST", "/echo", "hello")) client.send(std::string(1, c));
  EXPECT_EQ(client.response().body, "POST hello");
}

TEST_F(HttpServerTest, takes_a_whole_uri_as_target_and_its_host) {
  start();
  RawClient client(server_->port());
  client.send("POST http://x/echo?a=1 HTTP/1.1\r\nHost: y\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(client.response().body, "POST hi");
  client.send("GET HTTP://elsewhere:80 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  kept()->send(200, "text/plain", "");
  EXPECT_EQ(client.response().status, 200);
  EXPECT_EQ(requests_.at(0).path, "/");
  EXPECT_EQ(requests_.at(0).host, "elsewhere:80");
}

TEST_F(HttpServerTest, refuses_compressed_bodies) {
  start();
  RawClient client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(client.response().body, "POST hi");
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(client.response().status, 415);
}

TEST_F(HttpServerTest, reads_chunked_bodies) {
  start();
  RawClient client(server_->port());
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n";
  client.send(request);
  EXPECT_EQ(client.response().body, "POST abcdefg");
  for (const char c : request) client.send(std::string(1, c));
  EXPECT_EQ(client.response().body, "POST abcdefg");
}

TEST_F(HttpServerTest, answers_pipelined_requests_in_order) {
  start();
  RawClient client(server_->port());
  client.send(http_request("POST", "/echo", "1") + http_request("POST", "/echo", "2") + http_request("GET", "/echo"));
  EXPECT_EQ(client.response().body, "POST 1");
  EXPECT_EQ(client.response().body, "POST 2");
  EXPECT_EQ(client.response().body, "GET ");
}

TEST_F(HttpServerTest, keeps_only_so_much_of_what_a_client_sends_ahead) {
  HttpLimits limits;
  limits.read_ahead_bytes = 4096;
  start(limits);
  RawClient client(server_->port());
  client.send(http_request("GET", "/wait"));
  const auto reply = kept();
  std::string ahead;
  for (int i = 0; i < 2000; ++i) ahead += http_request("GET", "/echo");
  std::thread sender([&] { client.send(ahead); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  reply->send(200, "text/plain", "first");
  EXPECT_EQ(client.response().body, "first");
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(client.response().status, 200) << i;
  sender.join();
}

TEST_F(HttpServerTest, head_has_no_body) {
  start();
  RawClient client(server_->port());
  client.send(http_request("HEAD", "/echo") + http_request("POST", "/echo", "x"));
  while (client.data.find("POST x") == std::string::npos && client.receive()) {
  }
  EXPECT_NE(client.data.find("Content-Length: 4\r\n"), std::string::npos) << client.data;
  EXPECT_EQ(client.data.find("GET \r\n"), std::string::npos);
}

TEST_F(HttpServerTest, http_1_0_gets_an_answer_and_a_closed_connection) {
  start();
  RawClient client(server_->port());
  client.send("GET /echo HTTP/1.0\r\n\r\n");
  const auto response = client.response();
  EXPECT_EQ(response.body, "GET ");
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpServerTest, refuses_what_is_too_large) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  start(limits);
  {
    RawClient client(server_->port());
    client.send("GET /echo HTTP/1.1\r\nHost: x\r\nX: " + std::string(20000, 'a'));
    EXPECT_EQ(client.response().status, 431);
    EXPECT_TRUE(client.at_end());
  }
  {
    RawClient client(server_->port());
    client.send(http_request("POST", "/echo", std::string(1001, 'a')));
    const auto response = client.response();
    EXPECT_EQ(response.status, 413);
    EXPECT_NE(response.body.find("\"error\""), std::string::npos);
    EXPECT_NE(response.body.find("1000"), std::string::npos);
  }
  {
    RawClient client(server_->port());
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, 'a') +
                "\r\n0\r\n\r\n");
    EXPECT_EQ(client.response().status, 413);
  }
  {
    RawClient client(server_->port());
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(40000, 'a'));
    EXPECT_EQ(client.response().status, 400);
  }
}

TEST_F(HttpServerTest, limits_what_all_bodies_take_together) {
  HttpLimits limits;
  limits.all_bodies_bytes = 3000;
  start(limits);
  RawClient first(server_->port()), second(server_->port());
  const std::string request = http_request("POST", "/wait", std::string(2000, 'a'));
  first.send(request);
  kept();
  second.send(request);
  EXPECT_EQ(second.response().status, 503);
  {
    std::lock_guard lock(mutex_);
    requests_.clear();  // the body has been read
  }
  RawClient third(server_->port());
  third.send(http_request("POST", "/echo", std::string(2000, 'a')));
  EXPECT_EQ(third.response().status, 200);
}

TEST_F(HttpServerTest, refuses_what_is_no_http) {
  start();
  for (const std::string garbage : {
           "garbage\r\n\r\n",
           "GET /echo HTTP/9.9\r\nHost: x\r\n\r\n",
           "GET /echo\r\n\r\n",
           "GET /echo HTTP/1.1\r\n\r\n",
           "GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
           "GET echo HTTP/1.1\r\nHost: x\r\n\r\n",
           "GET http:///echo HTTP/1.1\r\nHost: x\r\n\r\n",
           "GET http://user@x/echo HTTP/1.1\r\nHost: x\r\n\r\n",
           "GET ftp://x/echo HTTP/1.1\r\nHost: x\r\n\r\n",
           "GET /a%zz HTTP/1.1\r\nHost: x\r\n\r\n",
           "GET /a%00 HTTP/1.1\r\nHost: x\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
           "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
           "GET /echo HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n",
           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS hello\r\n\r\n",
       }) {
    RawClient client(server_->port());
    client.send(garbage);
    EXPECT_EQ(client.response().status, 400) << garbage;
    EXPECT_TRUE(client.at_end()) << garbage;
  }
  RawClient client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n");
  EXPECT_GE(client.response().status, 400);
}

TEST_F(HttpServerTest, says_continue_to_a_client_that_asks) {
  start();
  RawClient client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.response().status, 100);
  client.send("abc");
  EXPECT_EQ(client.response().body, "POST abc");
}

TEST_F(HttpServerTest, refuses_an_expectation_it_does_not_know) {
  start();
  RawClient client(server_->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: foo\r\n\r\n");
  const auto response = client.response();
  EXPECT_EQ(response.status, 417);
  EXPECT_NE(response.body.find("foo"), std::string::npos);
}

TEST_F(HttpServerTest, skips_empty_lines_before_a_request) {
  start();
  RawClient client(server_->port());
  client.send("\r\n\r\n" + http_request("POST", "/echo", "one") + "\r\n");
  EXPECT_EQ(client.response().body, "POST one");
  client.send("\r");  // of a line that comes in two pieces
  client.send("\n" + http_request("GET", "/echo"));
  EXPECT_EQ(client.response().body, "GET ");
  client.send("\rGET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.response().status, 400);
}

TEST_F(HttpServerTest, does_not_read_the_body_of_a_request_that_its_header_refuses) {
  start({}, [](const HttpRequest& head) { return head.authorization == "Bearer k"; });
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n";
  for (const std::string more : {"", "Expect: 100-continue\r\n"}) {
    RawClient client(server_->port());
    client.send(head + more + "\r\n");
    const auto response = client.response();
    EXPECT_EQ(response.body, "POST ");  // answered without the body
    EXPECT_EQ(response.headers.at("connection"), "close");
    EXPECT_TRUE(client.at_end());
  }
  RawClient chunked(server_->port());
  chunked.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  EXPECT_EQ(chunked.response().body, "POST ");
  RawClient allowed(server_->port());
  allowed.send(head + "Authorization: Bearer k\r\n\r\na");
  allowed.send("bc");
  EXPECT_EQ(allowed.response().body, "POST abc");
}

TEST_F(HttpServerTest, decodes_the_path) {
  start();
  RawClient client(server_->port());
  client.send(http_request("GET", "/%65cho?a=/wait"));
  EXPECT_EQ(client.response().body, "GET ");
}

TEST_F(HttpServerTest, streams_in_chunks) {
  start();
  RawClient client(server_->port());
  client.send(http_request("GET", "/wait"));
  const auto reply = kept();
  reply->begin_stream("text/event-stream");
  reply->write("one ");
  reply->write("");
  reply->write("two");
  reply->end();
  const auto response = client.response();
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(response.body, "one two");
  client.send(http_request("POST", "/echo", "again"));
  EXPECT_EQ(client.response().body, "POST again");
}

TEST_F(HttpServerTest, notices_a_client_that_leaves_while_it_waits_or_reads) {
  start();
  for (int i = 0; i < 4; ++i) {
    RawClient client(server_->port());
    client.send(http_request("GET", "/wait"));
    const auto reply = kept(static_cast<std::size_t>(i));
    if (i >= 2) reply->begin_stream("text/event-stream");
    if (i % 2 == 0) {
      client.close();
    } else {
      client.reset();
    }
    EXPECT_TRUE(eventually([&] { return gone_ == i + 1; })) << i;
    reply->write("nobody reads this");
    reply->end();
  }
  EXPECT_TRUE(eventually([&] { return server_->answering() == 0; }));
}

TEST_F(HttpServerTest, gives_up_a_reader_that_falls_behind_a_stream) {
  HttpLimits limits;
  limits.unsent_stream_bytes = 100'000;
  start(limits);
  RawClient client(server_->port());
  client.send(http_request("GET", "/wait"));
  const auto reply = kept();
  reply->begin_stream("text/event-stream");
  const std::string piece(50'000, 'x');
  EXPECT_TRUE(eventually([&] {
    reply->write(piece);
    return gone_ == 1;
  }));
}

TEST_F(HttpServerTest, sends_a_large_whole_answer_to_a_slow_reader) {
  HttpLimits limits;
  limits.unsent_stream_bytes = 1000;
  start(limits);
  RawClient client(server_->port());
  client.send(http_request("GET", "/wait"));
  kept()->send(200, "text/plain", std::string(20'000'000, 'x'));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(client.response().body.size(), 20'000'000u);
}

TEST_F(HttpServerTest, closes_connections_that_stall) {
  HttpLimits limits;
  limits.first = limits.idle = limits.header = limits.body_stall = std::chrono::milliseconds(300);
  start(limits);
  RawClient idle(server_->port());
  EXPECT_TRUE(idle.at_end());
  RawClient slow(server_->port());
  slow.send("GET /echo HT");
  EXPECT_EQ(slow.response().status, 408);
  RawClient stuck(server_->port());
  stuck.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(stuck.response().status, 408);
}

TEST_F(HttpServerTest, a_dropped_reply_closes_the_connection) {
  start();
  RawClient client(server_->port());
  client.send(http_request("GET", "/drop"));
  EXPECT_TRUE(client.at_end());
}

TEST_F(HttpServerTest, takes_only_so_many_connections) {
  HttpLimits limits;
  limits.connections = 2;
  start(limits);
  RawClient a(server_->port()), b(server_->port());
  a.send(http_request("GET", "/echo"));
  b.send(http_request("GET", "/echo"));
  EXPECT_EQ(a.response().status, 200);
  EXPECT_EQ(b.response().status, 200);
  RawClient c(server_->port());
  EXPECT_TRUE(c.at_end());
  a.close();
  EXPECT_TRUE(eventually([&] {
    RawClient d(server_->port());
    d.send(http_request("GET", "/echo"));
    return d.response().status == 200;
  }));
}

TEST_F(HttpServerTest, stops_accepting_but_finishes_what_is_being_answered) {
  start();
  const std::uint16_t port = server_->port();
  RawClient idle(port), busy(port);
  busy.send(http_request("GET", "/wait"));
  const auto reply = kept();
  server_->stop_accepting();
  EXPECT_TRUE(idle.at_end());
  EXPECT_EQ(server_->answering(), 1);
  reply->send(200, "text/plain", "done");
  const auto response = busy.response();
  EXPECT_EQ(response.body, "done");
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(busy.at_end());
  EXPECT_TRUE(eventually([&] { return server_->answering() == 0; }));
}

TEST_F(HttpServerTest, a_port_in_use_is_an_error_that_names_it) {
  start();
  const auto second = HttpServer::listen("127.0.0.1", server_->port(), {}, {});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(std::to_string(server_->port())), std::string::npos);
  EXPECT_FALSE(HttpServer::listen("no.such.host.invalid", 0, {}, {}));
}

}  // namespace
}  // namespace weir::api
