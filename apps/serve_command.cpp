// `weir serve`: the port is taken first (a wrong one should not cost the loading of a model), then the model is loaded,
// then requests are answered until SIGTERM or SIGINT.
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "api/http_server.h"
#include "api/service.h"
#include "apps/commands.h"
#include "apps/model_loading.h"
#include "apps/step_log.h"
#include "base/log.h"

namespace weir::apps {
namespace {

using Clock = std::chrono::steady_clock;

// Waits for the signals that ask the server to end. The first begins the shutdown, another one ends the process at
// once, unless the shutdown is as good as over.
class ShutdownSignals {
 public:
  ShutdownSignals() {
    sigset_t set = signals();
    // Threads that are started from here on inherit the mask, so that only the watcher gets the signals.
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::thread([this] { watch(); }).detach();
  }

  // Until this is called nothing is lost by ending at once. `busy`: whether anybody still waits for an answer; any
  // thread.
  void loaded(std::function<bool()> busy) {
    std::lock_guard lock(mutex_);
    busy_ = std::move(busy);
  }

  // The shutdown is over; what `busy` looks at may go.
  void over() {
    std::lock_guard lock(mutex_);
    busy_ = [] { return false; };
  }

  void wait() {
    std::unique_lock lock(mutex_);
    asked_changed_.wait(lock, [this] { return asked_; });
  }

 private:
  static sigset_t signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
  }

  void watch() {
    const sigset_t set = signals();
    while (true) {
      int signal = 0;
      if (sigwait(&set, &signal) != 0) continue;
      std::lock_guard lock(mutex_);
      if (!busy_) _exit(0);
      if (asked_ && still_busy()) _exit(1);
      asked_ = true;
      asked_changed_.notify_all();
    }
  }

  // The last answer may just be on its way out.
  bool still_busy() const {
    if (!busy_()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return busy_();
  }

  std::mutex mutex_;
  std::condition_variable asked_changed_;
  std::function<bool()> busy_;
  bool asked_ = false;
};

void log_summary(const LoadedModel& model, const ServeOptions& options, const api::HttpServer& server) {
  const auto& info = model.engine->info();
  const std::string host = options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
  spdlog::info("model     {} ({}, {}), {}, {} on disk, served as '{}'",
               model.name.empty() ? model.served->name : model.name, model.family, model.format, model.quantisation,
               human_bytes(static_cast<double>(model.file_bytes)), model.served->name);
  spdlog::info("context   {} tokens (the model was made for {})", info.max_model_len, model.context_length);
  const auto [full, small] = model.kv_tokens;
  const std::string held =
      full == small ? fmt::format("{} tokens", full)
                    : fmt::format("{} tokens in sequences of {}, {} in short ones", full, info.max_model_len, small);
  spdlog::info("KV cache  {} blocks of {} tokens in {}, {}: holds {}; prefix reuse: {}", info.num_kv_blocks,
               info.block_size, info.kv_dtype, human_bytes(static_cast<double>(info.kv_bytes)), held,
               info.prefix_index);
  spdlog::info("engine    {}, weights {}, up to {} sequences and {} tokens a step, loaded in {:.1f} s", info.backend,
               human_bytes(static_cast<double>(info.weight_bytes)), info.max_num_seqs, info.max_num_batched_tokens,
               info.load_s);
  for (const auto& [name, reply] : model.served->reply_formats) {
    spdlog::info("replies   {}reasoning: {}, tool calls: {}", name.empty() ? "" : name + ": ",
                 reply.format->reasoning_name(), reply.format->tool_name());
  }
  spdlog::info("ready     http://{}:{} (OpenAI API at /v1, chat page at /{})", host, server.port(),
               options.api_key.empty() ? "" : ", API key needed");
}

void shut_down(const ServeOptions& options, api::Service& service, api::HttpServer& server) {
  spdlog::info("shutting down: {} requests may take {} s to finish", service.active(), options.shutdown_timeout_s);
  service.drain();
  server.stop_accepting();
  const auto wait_until = [&](Clock::time_point deadline) {
    while ((service.active() > 0 || server.answering() > 0) && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  wait_until(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.shutdown_timeout_s)));
  if (service.active() > 0 || server.answering() > 0) {
    spdlog::warn("{} requests did not finish in time", service.active());
    service.give_up_all();
    wait_until(Clock::now() + std::chrono::seconds(1));  // for the error replies to get out
  }
  server.stop();
  service.stop();
}

int serve_logged(const ServeOptions& options, ShutdownSignals& signals) {
  // In order of need: replies must not outlive the server, outputs go to the service until the engine has ended.
  std::unique_ptr<StepLog> step_log;
  std::unique_ptr<api::HttpServer> server;
  api::Service service;
  LoadedModel model;

  api::HttpLimits limits;
  limits.body_bytes = options.max_request_bytes;
  limits.all_bodies_bytes = std::max<std::size_t>(limits.all_bodies_bytes, 2 * limits.body_bytes);
  limits.connections = options.max_connections;
  auto listening = api::HttpServer::listen(
      options.host, options.port, limits,
      [&](api::HttpRequest request, std::shared_ptr<api::Reply> reply) {
        service.handle(std::move(request), std::move(reply));
      },
      [&](const api::HttpRequest& head) { return service.wants_body(head); });
  if (!listening) return fail_with(listening.error());
  server = std::move(*listening);
  service.set_access(api::AccessPolicy(options.api_key, server->loopback(), options.host));
  server->start();
  if (options.api_key.empty() && !server->loopback()) {
    spdlog::warn("--host {}: other machines reach this server and no --api-key is set: anybody may use it",
                 options.host);
  }
  spdlog::info("loading {}", options.model.model);

  ModelOptions model_options = options.model;
  if (!options.step_log.empty()) {
    auto log = StepLog::create(options.step_log);
    if (!log) {
      server->stop();
      service.stop();
      return fail_with(log.error());
    }
    step_log = std::move(*log);
    model_options.engine.on_step = [&step_log](const engine::StepRecord& step) { step_log->write(step); };
  }
  auto loaded = load_model(model_options, options.served_model_name, service.output_sink());
  if (!loaded) {
    server->stop();
    service.stop();
    return fail_with(loaded.error());
  }
  model = std::move(*loaded);
  log_summary(model, options, *server);
  std::random_device entropy;
  const std::uint64_t seed = options.seed.value_or(std::uint64_t{entropy()} << 32 | entropy());
  service.set_ready(std::move(model.served), api::make_engine_client(*model.engine), seed);
  signals.loaded([&] { return service.active() > 0 || server->answering() > 0; });
  signals.wait();
  shut_down(options, service, *server);
  signals.over();
  model.engine.reset();
  return 0;
}

}  // namespace

int serve(const ServeOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  // Not destroyed: its thread waits for signals until the process ends.
  static auto& signals = *new ShutdownSignals;
  if (const auto status = init_log(options.log_level); !status) return fail_with(status.error());
  const int status = serve_logged(options, signals);
  if (status == 0) spdlog::info("stopped");
  shutdown_log();
  return status;
}

}  // namespace weir::apps
