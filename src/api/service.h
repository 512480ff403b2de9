// Service: the routes. Takes HTTP requests, has them parsed and tokenised on workers, and hands generations to the
// dispatcher.
//
//   I/O thread   access check, routing, /health, /metrics, /v1/models, the page
//   workers      JSON, chat template, tokenizer: may take long for a long prompt, so never on the I/O thread
//   dispatcher   everything that has to do with outputs (dispatcher.h)
//
// It can be asked before the model is loaded: everything but a few fixed answers is then a 503.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "api/access.h"
#include "api/dispatcher.h"
#include "api/engine_client.h"
#include "api/http.h"
#include "api/metrics.h"
#include "api/served_model.h"
#include "api/work_queue.h"

namespace weir::api {

class Service {
 public:
  Service();
  ~Service();

  // Before the server starts.
  void set_access(AccessPolicy access);

  // HttpGate: false for what is refused whatever the body says. I/O thread.
  bool wants_body(const HttpRequest& head) const;
  // HttpHandler; I/O thread.
  void handle(HttpRequest request, std::shared_ptr<Reply> reply);

  // For Engine::create: outputs go to the dispatcher. The service must outlive the engine.
  engine::OutputSink output_sink();
  // From here on requests are served. `seed`: what seeds are drawn from for requests that bring none.
  void set_ready(std::unique_ptr<ServedModel> model, std::unique_ptr<EngineClient> engine, std::uint64_t seed);

  // New requests get a 503 from now on.
  void drain();
  // Requests whose answer is not complete.
  int active() const;
  // Ends what is still in progress.
  void give_up_all();
  // Stops the threads; after it the engine may go. Nothing may come from the server any more.
  void stop();

 private:
  // Exists from set_ready() on.
  struct Serving {
    std::unique_ptr<ServedModel> model;
    std::unique_ptr<EngineClient> engine;
    std::unique_ptr<Metrics> metrics;
    std::uint64_t seed = 0;
  };
  struct Route;
  using Body = void (Service::*)(HttpRequest&, const std::shared_ptr<Reply>&);

  static const Route* find_route(std::string_view path);
  void health(HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void metrics(HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void models(HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void page(HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void completions(HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void chat_completions(HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void tokenize(HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void detokenize(HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void apply_template(HttpRequest& request, const std::shared_ptr<Reply>& reply);

  void on_worker(HttpRequest request, std::shared_ptr<Reply> reply, Body body);
  void start_generation(const HttpRequest& request, const std::shared_ptr<Reply>& reply, GenerationRequest parsed,
                        const ChatInput* chat);
  Result<GenerationJob> make_job(GenerationRequest parsed, const ChatInput* chat);
  Status check_head(const HttpRequest& request) const;
  Status check_model(const std::string& name) const;
  ParseContext parse_context() const;
  void answer(const HttpRequest& request, Reply& reply, int status, std::string body,
              std::string_view content_type = "application/json", HttpHeaders headers = {});
  void answer_error(const HttpRequest& request, Reply& reply, const Error& error);

  std::optional<AccessPolicy> access_;
  Serving serving_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};
  std::atomic<int> preparing_{0};
  std::atomic<std::uint64_t> next_id_{0};
  Dispatcher dispatcher_;
  WorkQueue worker_;  // last: its threads use all of the above
};

}  // namespace weir::api
