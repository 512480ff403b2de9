// For the tests of the routes: a service over HTTP in this process, with the scripted engine of testing.h.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "api/http_server.h"
#include "api/json_fields.h"
#include "api/service.h"
#include "api/testing.h"

namespace weir::api {

using testing::ByteTokenizer;
using testing::eventually;
using testing::FakeEngine;
using testing::http_request;
using testing::RawClient;
using testing::Response;

// The reply spells this, again and again; the seed shifts where it begins.
inline constexpr std::string_view kSpoken = "The weir holds the river: 5 metres, naïve 😀.\n";

inline TokenId speak(const engine::SequenceRequest& request, std::int64_t position) {
  const std::size_t shift = request.sampling.temperature > 0 ? request.sampling.seed % 7 : 0;
  return static_cast<unsigned char>(kSpoken[(static_cast<std::size_t>(position) + shift) % kSpoken.size()]);
}

inline std::string spoken(std::size_t tokens) {
  std::string out;
  while (out.size() < tokens) out += kSpoken;
  return out.substr(0, tokens);
}

struct Stream {
  std::vector<Json> events;
  bool done = false;
  std::string text(int index = 0) const {
    std::string out;
    for (const auto& event : events) {
      for (const auto& choice : event["choices"]) {
        if (choice["index"] != index) continue;
        if (choice.contains("text")) out += choice["text"].get<std::string>();
        if (choice.contains("delta") && choice["delta"].contains("content"))
          out += choice["delta"]["content"].get<std::string>();
      }
    }
    return out;
  }
};

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::warn);  // a line per request drowns what failed
    start();
  }

  void start(FakeEngine::Script script = speak, std::chrono::microseconds step = std::chrono::microseconds(200),
             std::string key = {}, std::optional<text::parse::OutputFormat> format = {},
             std::string chat_template =
                 "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}"
                 "[assistant] {% endif %}") {
    service_ = std::make_unique<Service>();
    auto server = HttpServer::listen(
        "127.0.0.1", 0, {},
        [this](HttpRequest request, std::shared_ptr<Reply> reply) {
          service_->handle(std::move(request), std::move(reply));
        },
        [this](const HttpRequest& head) { return service_->wants_body(head); });
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    service_->set_access(AccessPolicy(std::move(key), true, "127.0.0.1"));
    server_->start();
    EXPECT_EQ(get("/health").status, 503);
    EXPECT_EQ(post("/v1/completions", R"({"prompt":"x"})").status, 503);

    auto model = std::make_unique<ServedModel>();
    model->name = "fake/model";
    model->vocab_size = ByteTokenizer::kSize;
    model->max_model_len = 512;
    model->eos_ids = {ByteTokenizer::kEos};
    model->tokenizer = std::make_unique<ByteTokenizer>();
    auto parsed = text::ChatTemplate::parse(std::move(chat_template));
    ASSERT_TRUE(parsed) << parsed.error().message;
    model->chat_templates.emplace("", std::move(*parsed));
    if (format) model->reply_formats.emplace("", make_reply_format(*model->tokenizer, std::move(*format)));
    auto engine = std::make_unique<FakeEngine>(service_->output_sink(), std::move(script), step);
    engine_ = engine.get();
    service_->set_ready(std::move(model), std::move(engine), 1);
  }

  void TearDown() override { stop(); }

  void stop() {
    if (server_) server_->stop();
    if (service_) service_->stop();
    if (engine_) engine_->stop();
    engine_ = nullptr;
    service_.reset();
    server_.reset();
  }

  Response call(const std::string& request) {
    RawClient client(server_->port());
    client.send(request);
    return client.response();
  }
  Response get(std::string_view path, std::string_view headers = {}) {
    return call(http_request("GET", path, {}, headers));
  }
  Response post(std::string_view path, std::string_view body) { return call(http_request("POST", path, body)); }

  Json ok(std::string_view path, std::string_view body) {
    const auto response = post(path, body);
    EXPECT_EQ(response.status, 200) << body << response.body;
    auto json = parse_json(response.body);
    EXPECT_TRUE(json) << response.body;
    return json ? *json : Json::object();
  }
  Json complete(std::string_view body) { return ok("/v1/completions", body); }

  Stream stream(std::string_view path, std::string_view body) {
    const auto response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_TRUE(response.headers.at("content-type").starts_with("text/event-stream"));
    Stream out;
    std::string_view rest = response.body;
    while (!rest.empty()) {
      const auto end = rest.find("\n\n");
      EXPECT_TRUE(rest.starts_with("data: ") && end != std::string_view::npos) << rest;
      if (end == std::string_view::npos) break;
      const auto data = rest.substr(6, end - 6);
      rest.remove_prefix(end + 2);
      EXPECT_FALSE(out.done) << "an event after [DONE]";
      if (data == "[DONE]") {
        out.done = true;
        continue;
      }
      auto event = parse_json(data);
      EXPECT_TRUE(event) << data;
      if (event) out.events.push_back(std::move(*event));
    }
    EXPECT_TRUE(out.done);
    return out;
  }

  double metric(const std::string& name) {
    const std::string text = get("/metrics").body;
    double sum = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      const auto line = text.substr(at, end - at);
      at = end + 1;
      const auto value = line.rfind(' ');
      if (line.substr(0, line.find_first_of("{ ")) == name) sum += std::stod(line.substr(value + 1));
    }
    return sum;
  }

  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<Service> service_;
  FakeEngine* engine_ = nullptr;
};

}  // namespace weir::api
