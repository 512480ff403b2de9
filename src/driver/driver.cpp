#include "driver/driver.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/clock.h"
#include "base/printable.h"
#include "driver/connection.h"

namespace weir::driver {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int kAskPatience_ms = 30'000;           // for an answer of /v1/models
constexpr std::chrono::milliseconds kSweep{250};  // how exact timeouts are
// Between drawing everything and the zero of the schedule: time to be ready for a request that is due at 0.
constexpr double kLeadIn_s = 0.02;
// Above ordinary threads: the driver sleeps most of the time, and being late would be measured as the server's delay.
constexpr int kUrgentNice = -10;

double thread_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Raises the thread's priority while it lives, where the system lets it.
class Urgency {
 public:
  explicit Urgency(bool wanted) : before_(getpriority(PRIO_PROCESS, thread())) {
    raised_ = wanted && before_ > kUrgentNice && setpriority(PRIO_PROCESS, thread(), kUrgentNice) == 0;
  }
  ~Urgency() {
    if (raised_) setpriority(PRIO_PROCESS, thread(), before_);
  }
  Urgency(const Urgency&) = delete;
  Urgency& operator=(const Urgency&) = delete;

 private:
  static id_t thread() { return static_cast<id_t>(syscall(SYS_gettid)); }
  int before_;
  bool raised_ = false;
};

std::string head_of(const BaseUrl& url, const DriverOptions& options, const char* method, const std::string& path,
                    std::size_t body_bytes) {
  const bool plain = url.host.find(':') == std::string::npos;
  return fmt::format(
      "{} {}{} HTTP/1.1\r\nHost: {}{}{}:{}\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n", method,
      url.path, path, plain ? "" : "[", url.host, plain ? "" : "]", url.port,
      options.api_key.empty() ? "" : "Authorization: Bearer " + options.api_key + "\r\n", body_bytes);
}

std::string body_of(const Workload& workload, std::size_t i, const std::string& model, const DriverOptions& options) {
  std::string body =
      "{\"model\":" + nlohmann::json(model).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  auto out = std::back_inserter(body);
  if (workload.spec().text) {
    fmt::format_to(out, ",\"prompt\":\"{}\"", workload.prompt_text(i));
  } else {
    fmt::format_to(out, ",\"prompt\":[{}]", fmt::join(workload.prompt(i), ","));
  }
  fmt::format_to(out, ",\"max_tokens\":{},\"temperature\":{:g},\"ignore_eos\":{}", workload.requests()[i].output_tokens,
                 options.temperature, options.ignore_eos);
  if (options.stream)
    body += ",\"stream\":true,\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}";
  body += '}';
  return body;
}

class Run {
 public:
  Run(const Workload& workload, const DriverOptions& options, BaseUrl url, std::string model, asio::io_context& io,
      const Connection::Endpoints& endpoints)
      : workload_(workload),
        options_(options),
        url_(std::move(url)),
        io_(io),
        endpoints_(endpoints),
        due_(io),
        sweep_(io) {
    result_.model = std::move(model);
    total_ = workload.requests().size();
    if (options.limit_s > 0) {
      while (total_ > 1 && workload.requests()[total_ - 1].at_s > options.limit_s) --total_;
    }
    result_.records.resize(total_);
    for (std::size_t i = 0; i < result_.records.size(); ++i) {
      result_.records[i].index = i;
      result_.records[i].asked_prompt_tokens = workload.requests()[i].prompt_tokens();
      result_.records[i].asked_output_tokens = workload.requests()[i].output_tokens;
    }
  }

  RunResult all() {
    const Urgency urgency(options_.urgent);
    const double cpu_s = thread_cpu_s();
    prepare();
    result_.start_s = monotonic_s() + kLeadIn_s;
    sweep();
    if (workload_.spec().arrivals.open_loop()) {
      wait_for_next();
    } else {
      const auto clients = static_cast<std::size_t>(workload_.spec().arrivals.concurrency);
      result_.start_s = monotonic_s();
      for (std::size_t i = 0; i < clients && next_ < total_; ++i) issue(monotonic_s());
    }
    io_.run();
    result_.client_cpu_s = thread_cpu_s() - cpu_s;
    result_.records.resize(total_);
    result_.end_s = result_.start_s;
    for (const RequestRecord& record : result_.records) result_.end_s = std::max(result_.end_s, record.done_s);
    return std::move(result_);
  }

 private:
  // The bytes of the next request, made before it is due.
  void prepare() {
    if (next_ >= total_) return;
    const std::string body = body_of(workload_, next_, result_.model, options_);
    prepared_ = head_of(url_, options_, "POST", options_.endpoint, body.size()) + body;
  }

  void wait_for_next() {
    if (next_ >= total_) return;
    const double due_s = result_.start_s + workload_.requests()[next_].at_s;
    due_.expires_at(std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(due_s))));
    due_.async_wait([this](error_code error) {
      if (error) return;
      while (next_ < total_ && result_.start_s + workload_.requests()[next_].at_s <= monotonic_s())
        issue(result_.start_s + workload_.requests()[next_].at_s);
      wait_for_next();
    });
  }

  // The next request is due.
  void issue(double due_s) {
    const std::size_t i = next_++;
    result_.records[i].scheduled_s = due_s;
    std::string bytes = std::move(prepared_);
    if (options_.max_in_flight > 0 && in_flight_ >= options_.max_in_flight) {
      result_.records[i].queued_in_client = true;
      ++result_.open_loop_queued;
      queue_.emplace_back(i, std::move(bytes));
    } else {
      send(i, std::move(bytes));
    }
    prepare();
  }

  void send(std::size_t i, std::string bytes) {
    ++in_flight_;
    std::shared_ptr<Connection> connection;
    if (idle_.empty()) {
      connection = std::make_shared<Connection>(
          io_, endpoints_, [this](const std::shared_ptr<Connection>& c, bool reusable) { done(c, reusable); });
    } else {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
    busy_.insert(connection);
    connection->start(std::move(bytes), result_.records[i]);
  }

  void done(const std::shared_ptr<Connection>& connection, bool reusable) {
    busy_.erase(connection);
    if (reusable) {
      idle_.push_back(connection);
    } else {
      result_.connections += connection->opened();
    }
    --in_flight_;
    ++finished_;
    if (options_.on_progress) options_.on_progress(finished_);
    // From the loop, not from within the connection that has just ended.
    asio::post(io_, [this] {
      while (!queue_.empty() && in_flight_ < options_.max_in_flight) {
        auto [i, bytes] = std::move(queue_.front());
        queue_.pop_front();
        send(i, std::move(bytes));
      }
      if (!workload_.spec().arrivals.open_loop() && next_ < total_) {
        if (options_.limit_s > 0 && monotonic_s() > result_.start_s + options_.limit_s) {
          total_ = next_;
        } else {
          issue(monotonic_s());
        }
      }
      if (finished_ == total_) end();
    });
  }

  void end() {
    sweep_.cancel();
    due_.cancel();
    for (const auto& connection : idle_) result_.connections += connection->opened();
    idle_.clear();
  }

  void sweep() {
    sweep_.expires_after(kSweep);
    sweep_.async_wait([this](error_code error) {
      if (error || finished_ == total_) return;
      const double now_s = monotonic_s();
      for (const auto& connection : std::vector(busy_.begin(), busy_.end())) {
        if (connection->record() != nullptr && now_s - connection->record()->scheduled_s > options_.timeout_s)
          connection->give_up(fmt::format("no whole answer within {:g} s (--timeout)", options_.timeout_s));
      }
      sweep();
    });
  }

  const Workload& workload_;
  const DriverOptions& options_;
  BaseUrl url_;
  asio::io_context& io_;
  const Connection::Endpoints& endpoints_;
  asio::steady_timer due_, sweep_;
  RunResult result_;
  std::string prepared_;
  std::size_t total_ = 0, next_ = 0, finished_ = 0;
  int in_flight_ = 0;
  std::deque<std::pair<std::size_t, std::string>> queue_;  // due, and waiting for --max-concurrency
  std::vector<std::shared_ptr<Connection>> idle_;          // a stack
  std::unordered_set<std::shared_ptr<Connection>> busy_;
};

// The id of the server's first model.
Result<std::string> ask_model(const BaseUrl& url, const DriverOptions& options,
                              const Connection::Endpoints& endpoints) {
  asio::io_context io(1);
  asio::ip::tcp::socket socket(io);
  error_code error;
  for (const auto& endpoint : endpoints) {
    socket.close(error);
    socket.connect(endpoint, error);
    if (!error) break;
  }
  if (error) {
    return fail_at("base-url", ErrorCode::kNotFound,
                   "nothing answers at {} port {}: {}; start a server, or change --base-url", printable(url.host),
                   url.port, error.message());
  }
  const std::string request = head_of(url, options, "GET", "/v1/models", 0);
  asio::write(socket, asio::buffer(request), error);
  boost::beast::http::response_parser<boost::beast::http::string_body> parser;
  parser.eager(true);
  std::string chunk(16 * 1024, '\0'), pending;
  while (!error && !parser.is_done()) {
    pollfd readable{socket.native_handle(), POLLIN, 0};
    if (poll(&readable, 1, kAskPatience_ms) != 1) {
      error = asio::error::timed_out;
      break;
    }
    const std::size_t bytes = socket.read_some(asio::buffer(chunk), error);
    if (error == asio::error::eof) {
      parser.put_eof(error);
      break;
    }
    if (error) break;
    pending.append(chunk, 0, bytes);
    error_code parse;
    const std::size_t used = parser.put(asio::buffer(pending), parse);
    pending.erase(0, used);
    if (parse && parse != boost::beast::http::error::need_more) error = parse;
  }
  const auto json = nlohmann::json::parse(parser.get().body(), nullptr, false);
  const auto status = parser.is_header_done() ? parser.get().result_int() : 0;
  if (status == 200 && json.is_object() && json.contains("data") && json["data"].is_array() && !json["data"].empty() &&
      json["data"][0].is_object() && json["data"][0].contains("id") && json["data"][0]["id"].is_string())
    return json["data"][0]["id"].get<std::string>();
  return fail_at("model", ErrorCode::kNotFound,
                 "{}:{} named no model at /v1/models (HTTP {}); give one with --model, or a key with --api-key",
                 printable(url.host), url.port, status);
}

}  // namespace

Result<BaseUrl> parse_base_url(const std::string& url) {
  const auto wrong = [&] {
    return fail_at("base-url", ErrorCode::kInvalidArgument,
                   "--base-url '{}' is not http://HOST[:PORT][/PATH] (https is not supported)",
                   printable(url.substr(0, 200)));
  };
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return wrong();
  for (const char c : url)
    if (static_cast<unsigned char>(c) <= ' ' || c == '@' || c == '?' || c == '#') return wrong();
  std::string_view rest = std::string_view(url).substr(kScheme.size());
  BaseUrl out;
  const std::size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    out.path = rest.substr(slash);
    while (out.path.ends_with('/')) out.path.pop_back();
    rest = rest.substr(0, slash);
  }
  if (out.path.ends_with("/v1")) out.path.resize(out.path.size() - 3);  // as OpenAI's clients want it
  std::string_view port = "80";
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return wrong();
    out.host = rest.substr(1, end - 1);
    rest = rest.substr(end + 1);
    if (!rest.empty()) {
      if (!rest.starts_with(':')) return wrong();
      port = rest.substr(1);
    }
  } else {
    const std::size_t colon = rest.find(':');
    out.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) port = rest.substr(colon + 1);
  }
  const bool digits =
      !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string_view::npos;
  if (out.host.empty() || !digits || std::stoi(std::string(port)) > 65535 || port == "0") return wrong();
  out.port = port;
  return out;
}

namespace {

Result<Connection::Endpoints> resolve(asio::io_context& io, const BaseUrl& url) {
  asio::ip::tcp::resolver resolver(io);
  error_code error;
  Connection::Endpoints endpoints = resolver.resolve(url.host, url.port, error);
  if (error || endpoints.empty()) {
    return fail_at("base-url", ErrorCode::kNotFound, "--base-url: there is no host '{}': {}", printable(url.host),
                   error.message());
  }
  return endpoints;
}

Status check_key(const std::string& key) {
  for (const char c : key)
    if (static_cast<unsigned char>(c) < ' ')
      return fail_at("api-key", ErrorCode::kInvalidArgument, "--api-key holds a control character");
  return {};
}

}  // namespace

Result<std::string> first_model(const std::string& base_url, const std::string& api_key) {
  WEIR_TRY(const BaseUrl url, parse_base_url(base_url));
  WEIR_RETURN_IF_ERROR(check_key(api_key));
  asio::io_context io(1);
  WEIR_TRY(const auto endpoints, resolve(io, url));
  DriverOptions options;
  options.api_key = api_key;
  return ask_model(url, options, endpoints);
}

Result<RunResult> run_workload(const Workload& workload, const DriverOptions& options) {
  WEIR_TRY(BaseUrl url, parse_base_url(options.base_url));
  WEIR_RETURN_IF_ERROR(check_key(options.api_key));
  asio::io_context io(1);
  WEIR_TRY(const auto endpoints, resolve(io, url));
  std::string model = options.model;
  if (model.empty()) {
    WEIR_TRY(model, ask_model(url, options, endpoints));
  }
  if (workload.requests().empty()) return RunResult{.model = model};
  Run run(workload, options, std::move(url), std::move(model), io, endpoints);
  return run.all();
}

}  // namespace weir::driver
