#include "api/http_server.h"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>
#include <vector>

#include "api/http_connection.h"

namespace weir::api {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// How exact the deadlines are.
constexpr std::chrono::milliseconds kSweep{250};
// How long to wait when the process is out of file descriptors.
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

struct HttpServer::Impl {
  ConnectionContext context;
  asio::ip::tcp::acceptor acceptor{context.io};
  asio::steady_timer sweep{context.io};
  asio::steady_timer pause{context.io};
  std::thread thread;

  void accept() {
    acceptor.async_accept([this](error_code error, asio::ip::tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (error) {
        pause.expires_after(kAcceptPause);
        pause.async_wait([this](error_code) {
          if (acceptor.is_open()) accept();
        });
        return;
      }
      if (context.open.size() < static_cast<std::size_t>(context.limits.connections)) {
        const auto connection = std::make_shared<Connection>(context, std::move(socket));
        context.open.insert(connection);
        connection->start();
      }
      accept();
    });
  }

  // A copy, because what is called may close connections.
  template <class F>
  void for_each_connection(F&& f) {
    for (const auto& connection : std::vector(context.open.begin(), context.open.end())) f(*connection);
  }

  void sweep_deadlines() {
    sweep.expires_after(kSweep);
    sweep.async_wait([this](error_code error) {
      if (error) return;
      const auto now = Connection::Clock::now();
      for_each_connection([&](Connection& connection) { connection.check_deadlines(now); });
      sweep_deadlines();
    });
  }

  void stop_accepting() {
    context.draining = true;
    error_code error;
    acceptor.close(error);
    for_each_connection([](Connection& connection) { connection.close_if_idle(); });
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& host, std::uint16_t port,
                                                       const HttpLimits& limits, HttpHandler handler, HttpGate gate) {
  auto impl = std::make_unique<Impl>();
  impl->context.limits = limits;
  impl->context.handler = std::move(handler);
  impl->context.gate = std::move(gate);

  error_code error;
  auto address = asio::ip::make_address(host, error);
  if (error) {
    asio::ip::tcp::resolver resolver(impl->context.io);
    const auto found = resolver.resolve(host, std::to_string(port), asio::ip::resolver_base::passive, error);
    if (error || found.empty()) {
      return fail_at("host", ErrorCode::kInvalidArgument, "--host {}: no such address ({})", host, error.message());
    }
    address = found.begin()->endpoint().address();
  }
  const asio::ip::tcp::endpoint endpoint(address, port);
  auto& acceptor = impl->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return fail_at("port", ErrorCode::kInvalidArgument,
                   "cannot listen on {} port {}: {}; choose another --host or --port", host, port, error.message());
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::uint16_t HttpServer::port() const {
  error_code error;
  return impl_->acceptor.local_endpoint(error).port();
}

bool HttpServer::loopback() const {
  error_code error;
  return impl_->acceptor.local_endpoint(error).address().is_loopback();
}

int HttpServer::answering() const {
  return impl_->context.answering;
}

void HttpServer::start() {
  impl_->accept();
  impl_->sweep_deadlines();
  impl_->thread = std::thread([impl = impl_.get()] { impl->context.io.run(); });
  pthread_setname_np(impl_->thread.native_handle(), "weir-http");
}

void HttpServer::stop_accepting() {
  asio::post(impl_->context.io, [impl = impl_.get()] { impl->stop_accepting(); });
}

void HttpServer::stop() {
  if (!impl_->thread.joinable()) return;
  asio::post(impl_->context.io, [impl = impl_.get()] {
    impl->stop_accepting();
    impl->for_each_connection([](Connection& connection) { connection.close(); });
    impl->sweep.cancel();
    impl->pause.cancel();
    impl->context.io.stop();
  });
  impl_->thread.join();
}

}  // namespace weir::api
