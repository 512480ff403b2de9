// `weir plan serve`: the planner as a page.
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "api/access.h"
#include "api/errors.h"
#include "api/http_server.h"
#include "apps/commands.h"
#include "apps/plan_command.h"
#include "apps/plan_page.h"
#include "base/log.h"
#include "plan/page/page.h"

namespace weir::apps {
namespace {

struct Options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8010;
};

int serve_page(const Options& options) {
  ::signal(SIGPIPE, SIG_IGN);
  // Blocked before any thread starts, so that only sigwait below gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  PlanPage page;
  std::unique_ptr<api::AccessPolicy> access;
  api::HttpLimits limits;
  limits.body_bytes = plan::kMostPageBody;
  limits.all_bodies_bytes = 64 * plan::kMostPageBody;
  limits.connections = 64;
  auto server = api::HttpServer::listen(
      options.host, options.port, limits,
      [&](api::HttpRequest request, std::shared_ptr<api::Reply> reply) {
        if (const auto allowed = access->check(request); !allowed) {
          return reply->send(api::http_status(allowed.error()), "application/json", api::error_body(allowed.error()));
        }
        page.handle(std::move(request), std::move(reply));
      },
      [&](const api::HttpRequest& head) { return access->check(head).has_value(); });
  if (!server) return fail_with(server.error());
  access = std::make_unique<api::AccessPolicy>("", (*server)->loopback(), options.host);
  (*server)->start();
  if (!(*server)->loopback())
    spdlog::warn("--host {}: other machines reach this page, and anybody may let it compute", options.host);
  const std::string host = options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
  spdlog::info("ready     http://{}:{}/", host, (*server)->port());
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  (*server)->stop_accepting();
  page.stop();
  (*server)->stop();
  return 0;
}

}  // namespace

void add_plan_serve(CLI::App& plan, int& status) {
  auto options = std::make_shared<Options>();
  auto* command = plan.add_subcommand("serve", "the planner as a page in the browser");
  command->add_option("--host", options->host, "address to listen on");
  command->add_option("--port", options->port, "port; 0: any free one");
  command->callback([options, &status] {
    if (const auto log = init_log("info"); !log) {
      status = fail_with(log.error());
      return;
    }
    status = serve_page(*options);
    shutdown_log();
  });
}

}  // namespace weir::apps
