// The driver against a server that does as a script says. Nothing here depends on how fast the machine is: what must
// happen before what is told by who waits for whom.
#include "driver/driver.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "driver/metrics.h"

namespace weir::driver {
namespace {

constexpr std::chrono::seconds kPatience{60};

// One connection of the fake server.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  // The next whole request; empty once the client has closed.
  std::string request() {
    while (true) {
      const std::size_t end = in_.find("\r\n\r\n");
      if (end != std::string::npos) {
        const std::size_t at = in_.find("Content-Length: ");
        const std::size_t length = at < end ? std::stoul(in_.substr(at + 16)) : 0;
        if (in_.size() >= end + 4 + length) {
          const std::string whole = in_.substr(0, end + 4 + length);
          in_.erase(0, end + 4 + length);
          return whole;
        }
      }
      char buffer[65536];
      const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) return {};
      in_.append(buffer, static_cast<std::size_t>(n));
    }
  }
  void send(const std::string& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }
  void head() {
    send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  void chunk(const std::string& bytes) {
    char size[32];
    std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    send(size + bytes + "\r\n");
  }
  void token(int so_far) {
    chunk("data: {\"choices\":[{\"text\":\"x\"}],\"usage\":{\"completion_tokens\":" + std::to_string(so_far) +
          "}}\n\n");
  }
  void end() {
    chunk("data: [DONE]\n\n");
    send("0\r\n\r\n");
  }
  void reply(int tokens) {
    head();
    for (int i = 1; i <= tokens; ++i) token(i);
    end();
  }
  void plain(const std::string& status, const std::string& body) {
    send("HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body);
  }

 private:
  int fd_;
  std::string in_;
};

// `script`: answers the request, which is number `n` of all; false closes the connection.
class FakeServer {
 public:
  using Script = std::function<bool(Peer&, int n, const std::string& request)>;

  explicit FakeServer(Script script) : script_(std::move(script)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 256), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] {
      while (true) {
        const int fd = accept(listener_, nullptr, nullptr);
        if (fd < 0) return;
        std::lock_guard lock(mutex_);
        fds_.push_back(fd);
        threads_.emplace_back([this, fd] {
          Peer peer(fd);
          while (true) {
            const std::string request = peer.request();
            if (request.empty() || !script_(peer, requests_++, request)) break;
          }
          shutdown(fd, SHUT_RDWR);
        });
      }
    });
  }
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      std::lock_guard lock(mutex_);
      for (const int fd : fds_) shutdown(fd, SHUT_RDWR);
    }
    for (auto& thread : threads_) thread.join();
    for (const int fd : fds_) close(fd);
    close(listener_);
  }
  DriverOptions options() const {
    DriverOptions out;
    out.base_url = "http://127.0.0.1:" + std::to_string(port_);
    out.model = "m";
    return out;
  }
  int requests() const { return requests_; }

 private:
  Script script_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread acceptor_;
  std::mutex mutex_;
  std::vector<int> fds_;
  std::vector<std::thread> threads_;
  std::atomic<int> requests_{0};
};

// Opens when `count` have come.
class Gate {
 public:
  explicit Gate(int count) : left_(count) {}
  void come() {
    std::lock_guard lock(mutex_);
    --left_;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return left_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_;
};

Workload workload(std::size_t requests, const char* arrivals, std::int64_t output = 3) {
  WorkloadSpec spec;
  spec.requests = requests;
  spec.arrivals = *traffic::parse_arrivals(arrivals);
  spec.prompt.median = 8;
  spec.output.median = static_cast<double>(output);
  return *Workload::draw(spec);
}

TEST(Driver, sends_on_while_nothing_is_answered) {
  // No request is answered before all have come: a driver that waits for answers would not get one.
  constexpr int kRequests = 20;
  Gate all(kRequests);
  std::atomic<bool> together{true};
  FakeServer server([&](Peer& peer, int, const std::string&) {
    all.come();
    if (!all.wait()) together = false;
    peer.reply(3);
    return true;
  });
  const auto load = workload(kRequests, "poisson:2000");
  const auto run = run_workload(load, server.options());
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_TRUE(together);
  for (std::size_t i = 0; i < kRequests; ++i) {
    EXPECT_TRUE(run->records[i].ok()) << run->records[i].error;
    // Due when it was drawn to be, whatever happened.
    EXPECT_DOUBLE_EQ(run->records[i].scheduled_s, run->start_s + load.requests()[i].at_s);
    EXPECT_GE(run->records[i].sent_s, run->records[i].scheduled_s);
  }
}

TEST(Driver, waiting_in_the_driver_is_part_of_every_latency) {
  // One request at a time, and the first is answered only when all have long been due: a clock that started at the
  // sending would show one slow request, the true one shows five.
  double released_s = 0;
  FakeServer server([&](Peer& peer, int n, const std::string&) {
    if (n == 0) {
      const double until_s = monotonic_s() + 0.05;
      while (monotonic_s() < until_s) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      released_s = monotonic_s();
    }
    peer.reply(3);
    return true;
  });
  auto options = server.options();
  options.max_in_flight = 1;
  const auto load = workload(5, "constant:1000");
  const auto run = run_workload(load, options);
  ASSERT_TRUE(run);
  for (const auto& record : run->records) {
    ASSERT_TRUE(record.ok()) << record.error;
    EXPECT_DOUBLE_EQ(record.scheduled_s, run->start_s + load.requests()[record.index].at_s);
    EXPECT_GE(record.ttft_s(), released_s - record.scheduled_s);
    EXPECT_EQ(record.queued_in_client, record.index > 0);
    if (record.index > 0) {
      EXPECT_GE(record.lag_s(), released_s - record.scheduled_s);
    }
  }
  const Summary summary = summarise(*run, load, {});
  EXPECT_GE(summary.ttft.least, released_s - run->start_s - 0.004);
  EXPECT_EQ(run->open_loop_queued, 4);
}

TEST(Driver, closed_loop_keeps_as_many_requests_under_way_as_clients) {
  std::atomic<int> under_way{0}, most{0};
  FakeServer server([&](Peer& peer, int, const std::string&) {
    const int now = ++under_way;
    int seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    --under_way;  // before the answer: the client may be quicker than this thread
    peer.reply(2);
    return true;
  });
  const auto run = run_workload(workload(40, "closed:3"), server.options());
  ASSERT_TRUE(run);
  EXPECT_LE(most, 3);
  EXPECT_EQ(run->connections, 3);
  EXPECT_LE(summarise(*run, workload(40, "closed:3"), {}).peak_in_flight, 3);
}

TEST(Driver, a_limit_on_time_leaves_later_requests_out) {
  FakeServer server([](Peer& peer, int, const std::string&) {
    peer.reply(1);
    return true;
  });
  auto options = server.options();
  options.limit_s = 0.05;
  const auto closed = run_workload(workload(1'000'000, "closed:2", 1), options);
  ASSERT_TRUE(closed);
  EXPECT_LT(closed->records.size(), 1'000'000u);
  EXPECT_EQ(static_cast<int>(closed->records.size()), server.requests());
  const auto open = run_workload(workload(100, "constant:100", 1), options);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->records.size(), 6u);  // due at 0, 10, ..., 50 ms
}

TEST(Driver, requests_ask_for_what_was_drawn) {
  std::string seen;
  FakeServer server([&](Peer& peer, int, const std::string& request) {
    seen = request;
    peer.reply(3);
    return true;
  });
  auto options = server.options();
  options.api_key = "k1";
  const auto load = workload(1, "at-once");
  ASSERT_TRUE(run_workload(load, options));
  std::string ids;
  for (const TokenId id : load.prompt(0)) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  for (const std::string& part :
       {std::string("POST /v1/completions HTTP/1.1\r\n"), std::string("Authorization: Bearer k1\r\n"),
        "\"prompt\":[" + ids + "]", std::string("\"max_tokens\":3"), std::string("\"ignore_eos\":true"),
        std::string("\"include_usage\":true"), std::string("\"model\":\"m\"")})
    EXPECT_NE(seen.find(part), std::string::npos) << part << " in " << seen;
}

TEST(Driver, tokens_in_chunks_and_slow_heads_are_timed_as_they_come) {
  Gate first(1);
  double said_s = 0;
  FakeServer server([&](Peer& peer, int, const std::string&) {
    peer.head();  // the head alone is no token
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    said_s = monotonic_s();
    peer.token(2);
    peer.token(6);
    peer.end();
    return true;
  });
  const auto run = run_workload(workload(1, "at-once", 6), server.options());
  ASSERT_TRUE(run);
  const auto& record = run->records[0];
  ASSERT_TRUE(record.ok()) << record.error;
  EXPECT_LT(record.first_byte_s, said_s);
  EXPECT_GE(record.first_token_s, said_s);
  EXPECT_EQ(record.output_tokens, 6);
  EXPECT_EQ(record.counted_by, CountedBy::kUsage);
}

TEST(Driver, failures_are_the_requests_own) {
  FakeServer server([](Peer& peer, int n, const std::string&) {
    switch (n % 7) {
      case 0:
        peer.plain("429 Too Many Requests", R"({"error":{"message":"slow down"}})");
        return true;
      case 1:
        peer.plain("500 Internal Server Error", "oops");
        return true;
      case 2:
        peer.head();
        peer.token(1);
        return false;  // closes in the middle
      case 3:
        return false;  // closes at once
      case 4:
        peer.send("SSH-2.0-hello\r\n\r\n");
        return false;
      case 5:
        peer.head();
        peer.chunk("data: {\"error\":{\"message\":\"lost it\"}}\n\n");
        peer.end();
        return true;
      default:
        peer.reply(3);
        return true;
    }
  });
  const auto load = workload(14, "closed:1");
  const auto run = run_workload(load, server.options());
  ASSERT_TRUE(run);
  int good = 0;
  std::string all;
  for (const auto& record : run->records) {
    good += record.ok();
    all += record.error + "\n";
    EXPECT_GT(record.done_s, 0);
  }
  EXPECT_GE(good, 1);
  for (const char* why : {"HTTP 429: slow down", "HTTP 500: oops", "in the middle of the answer", "no HTTP", "lost it"})
    EXPECT_NE(all.find(why), std::string::npos) << why << " in " << all;
  EXPECT_EQ(summarise(*run, load, {}).completed, static_cast<std::size_t>(good));
}

TEST(Driver, a_kept_connection_that_the_server_closed_costs_no_request) {
  FakeServer server([](Peer& peer, int n, const std::string&) {
    peer.reply(2);
    return n % 2 == 0;  // every second answer, the server closes without saying so
  });
  const auto run = run_workload(workload(12, "closed:1", 2), server.options());
  ASSERT_TRUE(run);
  for (const auto& record : run->records) EXPECT_TRUE(record.ok()) << record.error;
  EXPECT_GE(run->connections, 6);
}

TEST(Driver, a_server_that_never_answers_times_out) {
  Gate never(1);
  FakeServer server([&](Peer& peer, int, const std::string&) {
    (void)peer.request();  // waits until the client gives up
    return false;
  });
  auto options = server.options();
  options.timeout_s = 0.2;
  const auto run = run_workload(workload(2, "at-once"), options);
  ASSERT_TRUE(run);
  for (const auto& record : run->records) EXPECT_NE(record.error.find("no whole answer"), std::string::npos);
}

TEST(Driver, asks_the_server_for_its_model) {
  FakeServer server([](Peer& peer, int, const std::string& request) {
    if (request.starts_with("GET /v1/models ")) {
      peer.plain("200 OK", R"({"data":[{"id":"tiny \"one\""}]})");
    } else {
      EXPECT_NE(request.find(R"("model":"tiny \"one\"")"), std::string::npos);
      peer.reply(1);
    }
    return true;
  });
  auto options = server.options();
  options.model.clear();
  const auto run = run_workload(workload(1, "at-once", 1), options);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->model, "tiny \"one\"");
}

TEST(Driver, says_that_nobody_answers) {
  std::string url;
  {
    FakeServer gone([](Peer&, int, const std::string&) { return false; });
    url = gone.options().base_url;
  }
  const auto model = first_model(url, "");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kNotFound);
  DriverOptions options;
  options.base_url = url;
  options.model = "m";
  const auto run = run_workload(workload(2, "at-once"), options);
  ASSERT_TRUE(run);
  for (const auto& record : run->records) EXPECT_NE(record.error.find("cannot connect"), std::string::npos);
}

TEST(BaseUrl, is_taken_apart_or_refused) {
  const auto plain = parse_base_url("http://example.com:81/v1/");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host + "|" + plain->port + "|" + plain->path, "example.com|81|");
  const auto six = parse_base_url("http://[::1]/api");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host + "|" + six->port + "|" + six->path, "::1|80|/api");
  for (const char* url :
       {"", "example.com", "https://a", "http://", "http://:80", "http://a:", "http://a:x", "http://a:99999",
        "http://a:0", "http://a b", "http://u@a", "http://a\r\nX: y", "http://[::1", "http://[::1]x"})
    EXPECT_FALSE(parse_base_url(url)) << url;
}

}  // namespace
}  // namespace weir::driver
