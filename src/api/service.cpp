#include "api/service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "api/clock.h"
#include "api/errors.h"
#include "api/json_writer.h"
#include "api/web_page.h"
#include "base/rng.h"

namespace weir::api {
namespace {

// Requests that may wait for the worker. Their bodies count against HttpLimits::all_bodies_bytes.
constexpr std::size_t kWorkerTasks = 4096;
// Two, so that one long prompt does not keep everybody else waiting.
constexpr int kWorkerThreads = 2;

constexpr std::string_view kModelsPath = "/v1/models";

std::int64_t unix_time_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void append_model(JsonWriter& json, const ServedModel& model) {
  json.begin_object()
      .key("id")
      .string(model.name)
      .key("object")
      .string("model")
      .key("created")
      .integer(model.created_s);
  json.key("owned_by").string("weir").key("max_model_len").integer(model.max_model_len).end_object();
}

// The body goes once it has been read: what follows may take long, and bodies may be large.
Result<Json> take_json(HttpRequest& request, const JsonLimits& limits = {}) {
  const std::string body = std::move(request.body);
  return parse_json(body, limits);
}

// No prompt has more ids than the context. The least keeps lists that are no prompts out of this, and lets those that
// are just too long be refused with their length.
JsonLimits prompt_limits(const ServedModel& model) {
  constexpr std::int64_t kLeast = 4096;
  JsonLimits limits;
  limits.list_numbers = std::min(limits.list_numbers, static_cast<std::size_t>(std::max(model.max_model_len, kLeast)));
  return limits;
}

void append_tokens(JsonWriter& json, const std::vector<TokenId>& tokens) {
  json.begin_array();
  for (const TokenId id : tokens) json.integer(id);
  json.end_array();
}

}  // namespace

struct Service::Route {
  std::string_view path;
  std::string_view method;
  Body body;
  bool worker;
  bool before_ready;  // has an answer before the model is loaded
};

const Service::Route* Service::find_route(std::string_view path) {
  static constexpr std::array kRoutes = {
      Route{"/v1/chat/completions", "POST", &Service::chat_completions, true, false},
      Route{"/v1/completions", "POST", &Service::completions, true, false},
      Route{kModelsPath, "GET", &Service::models, false, false},
      Route{"/tokenize", "POST", &Service::tokenize, true, false},
      Route{"/detokenize", "POST", &Service::detokenize, true, false},
      Route{"/apply-template", "POST", &Service::apply_template, true, false},
      Route{"/health", "GET", &Service::health, false, true},
      Route{"/metrics", "GET", &Service::metrics, false, false},
      Route{"/", "GET", &Service::page, false, true},
  };
  // A model's name may hold slashes.
  if (path.starts_with("/v1/models/")) path = kModelsPath;
  for (const auto& route : kRoutes) {
    if (route.path == path) return &route;
  }
  return nullptr;
}

Service::Service() : worker_("weir-prepare", kWorkerTasks, kWorkerThreads) {}

Service::~Service() = default;

void Service::set_access(AccessPolicy access) {
  access_ = std::move(access);
}

engine::OutputSink Service::output_sink() {
  return [this](std::vector<engine::SequenceOutput>& outputs) { dispatcher_.on_outputs(outputs); };
}

void Service::set_ready(std::unique_ptr<ServedModel> model, std::unique_ptr<EngineClient> engine, std::uint64_t seed) {
  serving_.metrics = std::make_unique<Metrics>(model->name, model->max_model_len);
  model->longest_token_bytes = longest_token(*model->tokenizer);
  serving_.metrics->set_info(engine->info());
  serving_.model = std::move(model);
  serving_.engine = std::move(engine);
  serving_.seed = seed;
  dispatcher_.attach(*serving_.model, *serving_.engine, *serving_.metrics);
  ready_ = true;
}

void Service::drain() {
  draining_ = true;
}

int Service::active() const {
  return preparing_ + dispatcher_.active();
}

void Service::give_up_all() {
  dispatcher_.give_up_all(
      {ErrorCode::kOverloaded, "the server is shutting down and could not finish this request in time", {}});
}

void Service::stop() {
  worker_.stop();
  dispatcher_.stop();
}

void Service::answer(const HttpRequest& request, Reply& reply, int status, std::string body,
                     std::string_view content_type, HttpHeaders headers) {
  if (ready_) {
    const Route* route = find_route(request.path);
    serving_.metrics->count_http(route ? route->path : "other", route ? request.method : "other", status);
  }
  // Health checks and scrapes come every few seconds and say nothing.
  const auto level =
      request.path == "/health" || request.path == "/metrics" ? spdlog::level::debug : spdlog::level::info;
  spdlog::log(level, "{} {} {} {} total {:.1f} ms", request.peer, request.method.substr(0, 16),
              request.path.substr(0, 200), status, (monotonic_s() - request.arrived_s) * 1e3);
  reply.send(status, content_type, std::move(body), std::move(headers));
}

void Service::answer_error(const HttpRequest& request, Reply& reply, const Error& error) {
  HttpHeaders headers;
  if (error.code == ErrorCode::kUnauthorized) {
    // On the page a browser asks the user for the key and sends it with the page's own requests too.
    headers.emplace_back("WWW-Authenticate",
                         request.path == "/" ? "Basic realm=\"weir: the API key is the password\"" : "Bearer");
  }
  if (error.code == ErrorCode::kOverloaded) headers.emplace_back("Retry-After", "1");
  answer(request, reply, http_status(error), error_body(error), "application/json", std::move(headers));
}

// What the header alone decides.
Status Service::check_head(const HttpRequest& request) const {
  WEIR_RETURN_IF_ERROR(access_->check(request));
  const Route* route = find_route(request.path);
  if (!route) return fail(ErrorCode::kNotFound, "there is no route {}", request.path.substr(0, 80));
  if (request.method != route->method) {
    return fail_at("method", ErrorCode::kInvalidArgument, "{} takes {}, not {}", route->path, route->method,
                   request.method.substr(0, 16));
  }
  return {};
}

bool Service::wants_body(const HttpRequest& head) const {
  return check_head(head).has_value();
}

void Service::handle(HttpRequest request, std::shared_ptr<Reply> reply) {
  if (auto checked = check_head(request); !checked) {
    Error& error = checked.error();
    if (std::exchange(error.param, {}) != "method") return answer_error(request, *reply, error);
    const bool get = find_route(request.path)->method == "GET";
    return answer(request, *reply, 405, error_body(error), "application/json", {{"Allow", get ? "GET, HEAD" : "POST"}});
  }
  const Route* route = find_route(request.path);
  if (!ready_ && !route->before_ready) {
    return answer_error(request, *reply,
                        {ErrorCode::kOverloaded, "the model is still being loaded; try again in a moment", {}});
  }
  if (!route->worker) return (this->*route->body)(request, reply);
  if (draining_) return answer_error(request, *reply, {ErrorCode::kOverloaded, "the server is shutting down", {}});
  on_worker(std::move(request), std::move(reply), route->body);
}

void Service::on_worker(HttpRequest request, std::shared_ptr<Reply> reply, Body body) {
  ++preparing_;
  const auto shared = std::make_shared<HttpRequest>(std::move(request));
  const bool posted = worker_.post([this, shared, reply, body] {
    (this->*body)(*shared, reply);
    --preparing_;
  });
  if (posted) return;
  --preparing_;
  answer_error(
      *shared, *reply,
      {ErrorCode::kOverloaded, fmt::format("{} requests are waiting to be read; try again later", kWorkerTasks), {}});
}

void Service::health(HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  if (draining_) return answer_error(request, *reply, {ErrorCode::kOverloaded, "the server is shutting down", {}});
  if (!ready_) return answer_error(request, *reply, {ErrorCode::kOverloaded, "the model is still being loaded", {}});
  answer(request, *reply, 200, "{\"status\":\"ok\"}");
}

void Service::metrics(HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  answer(request, *reply, 200, serving_.metrics->scrape(serving_.engine->stats()),
         "text/plain; version=0.0.4; charset=utf-8");
}

void Service::models(HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  std::string body;
  JsonWriter json(body);
  if (request.path == kModelsPath) {
    json.begin_object().key("object").string("list").key("data").begin_array();
    append_model(json, *serving_.model);
    json.end_array().end_object();
  } else {
    if (const auto known = check_model(request.path.substr(kModelsPath.size() + 1)); !known)
      return answer_error(request, *reply, known.error());
    append_model(json, *serving_.model);
  }
  answer(request, *reply, 200, std::move(body));
}

void Service::page(HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  // Nothing but the page itself may run, and it may talk to this server only: what a model writes stays text.
  answer(request, *reply, 200, std::string(web_page()), "text/html; charset=utf-8",
         {{"Content-Security-Policy",
           "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src "
           "data:; frame-ancestors 'none'; "
           "base-uri 'none'; form-action 'none'"},
          {"Referrer-Policy", "no-referrer"}});
}

Status Service::check_model(const std::string& name) const {
  if (name.empty() || name == serving_.model->name) return {};
  return fail_at("model", ErrorCode::kNotFound, "the model '{}' does not exist; this server has '{}'",
                 name.substr(0, 80), serving_.model->name);
}

ParseContext Service::parse_context() const {
  return {serving_.model->vocab_size, serving_.model->defaults};
}

void Service::completions(HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  auto parsed = take_json(request, prompt_limits(*serving_.model)).and_then([&](const Json& json) {
    return parse_completion_request(json, parse_context());
  });
  if (!parsed) return answer_error(request, *reply, parsed.error());
  start_generation(request, reply, std::move(*parsed), nullptr);
}

void Service::chat_completions(HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  auto parsed = take_json(request, prompt_limits(*serving_.model)).and_then([&](const Json& json) {
    return parse_chat_request(json, parse_context());
  });
  if (!parsed) return answer_error(request, *reply, parsed.error());
  start_generation(request, reply, std::move(parsed->generation), &parsed->chat);
}

Result<GenerationJob> Service::make_job(GenerationRequest parsed, const ChatInput* chat) {
  WEIR_RETURN_IF_ERROR(check_model(parsed.model));
  WEIR_TRY(auto prompts, build_prompts(*serving_.model, *serving_.engine, parsed, chat));
  GenerationJob job;
  const std::uint64_t number = next_id_++;
  const auto bits = philox(serving_.seed, number);
  const std::uint64_t drawn = std::uint64_t{bits[0]} << 32 | bits[1];
  job.id = fmt::format("{}-{:08x}{:08x}{:08x}", parsed.chat ? "chatcmpl" : "cmpl", bits[2], bits[3], number);
  job.seed = parsed.seed.value_or(drawn);
  job.created_s = unix_time_s();
  job.request = std::move(parsed);
  job.prompts = std::move(prompts);
  return job;
}

void Service::start_generation(const HttpRequest& request, const std::shared_ptr<Reply>& reply,
                               GenerationRequest parsed, const ChatInput* chat) {
  auto job = make_job(std::move(parsed), chat);
  if (!job) return answer_error(request, *reply, job.error());
  job->reply = reply;
  job->arrived_s = request.arrived_s;
  dispatcher_.start(std::move(*job));
}

void Service::tokenize(HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const auto parsed = take_json(request).and_then([](const Json& json) { return parse_tokenize_request(json); });
  if (!parsed) return answer_error(request, *reply, parsed.error());
  if (const auto known = check_model(parsed->model); !known) return answer_error(request, *reply, known.error());
  const auto tokens = parsed->prompt
                          ? encode_text(*serving_.model, *parsed->prompt, parsed->add_special_tokens, TextUse::kCount)
                          : encode_chat(*serving_.model, parsed->chat, parsed->add_special_tokens, TextUse::kCount);
  if (!tokens) return answer_error(request, *reply, tokens.error());
  std::string body;
  JsonWriter json(body);
  json.begin_object()
      .key("count")
      .integer(tokens->size())
      .key("max_model_len")
      .integer(serving_.model->max_model_len)
      .key("tokens");
  append_tokens(json, *tokens);
  json.key("token_strs");
  if (parsed->return_token_strings) {
    json.begin_array();
    for (const TokenId id : *tokens) json.string(text::sanitise_utf8(serving_.model->tokenizer->token_text(id)));
    json.end_array();
  } else {
    json.null();
  }
  json.end_object();
  answer(request, *reply, 200, std::move(body));
}

void Service::detokenize(HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const TokenId vocab_size = serving_.model->vocab_size;
  const auto parsed =
      take_json(request).and_then([&](const Json& json) { return parse_detokenize_request(json, vocab_size); });
  if (!parsed) return answer_error(request, *reply, parsed.error());
  if (const auto known = check_model(parsed->model); !known) return answer_error(request, *reply, known.error());
  std::string body;
  JsonWriter json(body);
  json.begin_object().key("prompt").string(serving_.model->tokenizer->decode(parsed->tokens, false)).end_object();
  answer(request, *reply, 200, std::move(body));
}

void Service::apply_template(HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const auto rendered = take_json(request)
                            .and_then([](const Json& json) { return parse_chat_input(json); })
                            .and_then([&](const ChatInput& chat) { return render_chat(*serving_.model, chat); });
  if (!rendered) return answer_error(request, *reply, rendered.error());
  std::string body;
  JsonWriter json(body);
  json.begin_object().key("prompt").string(text::sanitise_utf8(rendered->text)).end_object();
  answer(request, *reply, 200, std::move(body));
}

}  // namespace weir::api
