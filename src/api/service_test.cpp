// The whole API over real sockets, in front of an engine that speaks from a script.
#include "api/service_testing.h"

namespace weir::api {
namespace {

TEST_F(ServiceTest, a_completion_has_openais_shape) {
  const auto json = complete(R"({"model":"fake/model","prompt":"Hi","max_tokens":5,"temperature":0})");
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(json["model"], "fake/model");
  EXPECT_TRUE(json["created"].is_number_integer());
  const auto& choice = json["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["text"], "The w");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_TRUE(choice["stop_reason"].is_null());
  EXPECT_EQ(
      json["usage"].dump(),
      R"({"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":1}})");
}

TEST_F(ServiceTest, a_chat_has_openais_shape) {
  const auto json =
      ok("/v1/chat/completions",
         R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":4,"temperature":0,"return_token_ids":true})");
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("chatcmpl-"));
  const auto& choice = json["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "The ");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["token_ids"].size(), 4u);
  EXPECT_EQ(json["prompt_token_ids"].size(), std::string("[user] Hi\n[assistant] ").size());
  EXPECT_EQ(json["usage"]["prompt_tokens"], 22);
}

TEST_F(ServiceTest, streams_give_what_whole_replies_give) {
  for (const std::string fields : {R"("max_tokens":60)", R"("max_tokens":60,"stop":["river","res, na"])",
                                   R"("max_tokens":45,"logprobs":2)", R"("max_tokens":30,"echo":true,"logprobs":0)",
                                   R"("max_tokens":0,"echo":true)", R"("max_tokens":44,"n":3,"temperature":1,"seed":5)",
                                   R"("max_tokens":43)", R"("max_tokens":7,"return_token_ids":true)"}) {
    const std::string body = R"({"prompt":"über","temperature":0,)" + fields;
    const auto whole = complete(body + "}");
    const auto parts = stream("/v1/completions", body + R"(,"stream":true,"stream_options":{"include_usage":true}})");
    const auto n = whole["choices"].size();
    for (std::size_t i = 0; i < n; ++i) {
      const auto& choice = whole["choices"][i];
      EXPECT_EQ(choice["text"], parts.text(static_cast<int>(i))) << fields;
      int finishes = 0;
      Json ids = Json::array(), token_logprobs = Json::array(), offsets = Json::array(), tokens = Json::array();
      for (const auto& event : parts.events) {
        EXPECT_EQ(event["id"], parts.events[0]["id"]);
        for (const auto& c : event["choices"]) {
          if (c["index"] != i) continue;
          EXPECT_EQ(finishes, 0) << "something after the end";
          if (!c["finish_reason"].is_null()) {
            ++finishes;
            EXPECT_EQ(c["finish_reason"], choice["finish_reason"]);
            EXPECT_EQ(c["stop_reason"], choice["stop_reason"]);
          }
          if (c.contains("token_ids")) ids.insert(ids.end(), c["token_ids"].begin(), c["token_ids"].end());
          if (c["logprobs"].is_null()) continue;
          const auto& lp = c["logprobs"];
          token_logprobs.insert(token_logprobs.end(), lp["token_logprobs"].begin(), lp["token_logprobs"].end());
          offsets.insert(offsets.end(), lp["text_offset"].begin(), lp["text_offset"].end());
          tokens.insert(tokens.end(), lp["tokens"].begin(), lp["tokens"].end());
        }
      }
      EXPECT_EQ(finishes, 1) << fields;
      if (choice.contains("token_ids")) {
        EXPECT_EQ(ids, choice["token_ids"]);
      }
      if (!choice["logprobs"].is_null()) {
        EXPECT_EQ(token_logprobs, choice["logprobs"]["token_logprobs"]) << fields;
        EXPECT_EQ(offsets, choice["logprobs"]["text_offset"]) << fields;
        EXPECT_EQ(tokens, choice["logprobs"]["tokens"]) << fields;
      }
    }
    const auto& last = parts.events.back();
    EXPECT_TRUE(last["choices"].empty());
    EXPECT_EQ(last["usage"], whole["usage"]) << fields;
    for (std::size_t i = 0; i + 1 < parts.events.size(); ++i) EXPECT_TRUE(parts.events[i]["usage"].is_null());
  }
}

TEST_F(ServiceTest, stop_strings_end_the_text_and_cancel_the_sequence) {
  const auto json = complete(R"({"prompt":"x","max_tokens":400,"temperature":0,"stop":["the river","never"]})");
  EXPECT_EQ(json["choices"][0]["text"], "The weir holds ");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["choices"][0]["stop_reason"], "the river");
  EXPECT_EQ(json["usage"]["completion_tokens"], 24);
  EXPECT_TRUE(eventually([&] { return engine_->stats().running == 0; }));
  EXPECT_LT(engine_->produced(), 200);
  const auto kept =
      complete(R"({"prompt":"x","max_tokens":400,"temperature":0,"stop":"river","include_stop_str_in_output":true})");
  EXPECT_EQ(kept["choices"][0]["text"], "The weir holds the river");
}

TEST_F(ServiceTest, echo_and_logprobs_line_up_with_the_text) {
  for (const std::string prompt : {"\"über 5\"", "\"say <eos> then\"", "[195]", "[72,240,159]", "[258,259]"}) {
    const auto json =
        complete(R"({"prompt":)" + prompt + R"(,"max_tokens":12,"temperature":0,"echo":true,"logprobs":3})");
    const auto& choice = json["choices"][0];
    const auto& lp = choice["logprobs"];
    const auto n = json["usage"]["prompt_tokens"].get<std::size_t>() + 12;
    EXPECT_EQ(lp["tokens"].size(), n);
    EXPECT_EQ(lp["token_logprobs"].size(), n);
    EXPECT_EQ(lp["top_logprobs"].size(), n);
    EXPECT_TRUE(lp["token_logprobs"][0].is_null());
    EXPECT_TRUE(lp["top_logprobs"][0].is_null());
    std::string joined;
    for (const auto& token : lp["tokens"]) joined += token.get<std::string>();
    EXPECT_EQ(joined, choice["text"]) << prompt;
    if (prompt[0] == '"') {
      EXPECT_TRUE(joined.starts_with(prompt.substr(1, prompt.size() - 2))) << joined;
    }
    for (std::size_t i = 1; i < n; ++i) {
      const auto& top = lp["top_logprobs"][i];
      EXPECT_TRUE(top.size() == 3 || top.size() == 4) << top;
      EXPECT_EQ(top[lp["tokens"][i].get<std::string>()], lp["token_logprobs"][i]);
    }
  }
}

TEST_F(ServiceTest, prompt_logprobs_have_one_entry_per_token) {
  const auto json = complete(
      R"({"prompt":[10,20,30],"max_tokens":1,"prompt_logprobs":1,"return_token_ids":true,"return_tokens_as_token_ids":true,"logprobs":2})");
  const auto& choice = json["choices"][0];
  EXPECT_EQ(choice["prompt_token_ids"].dump(), "[10,20,30]");
  ASSERT_EQ(choice["prompt_logprobs"].size(), 3u);
  EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
  EXPECT_EQ(choice["prompt_logprobs"][1]["20"]["logprob"], -0.25);
  EXPECT_EQ(choice["prompt_logprobs"][2]["30"]["rank"], 1);
  EXPECT_TRUE(choice["logprobs"]["tokens"][0].get<std::string>().starts_with("token_id:"));
  for (const auto& [key, value] : choice["logprobs"]["top_logprobs"][0].items())
    EXPECT_TRUE(key.starts_with("token_id:")) << key;
}

TEST_F(ServiceTest, chat_logprobs_carry_the_bytes) {
  const auto json = ok(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":44,"temperature":0,"logprobs":true,"top_logprobs":2})");
  const auto& content = json["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 44u);
  std::string bytes;
  for (const auto& entry : content) {
    for (const auto& byte : entry["bytes"]) bytes.push_back(static_cast<char>(byte.get<int>()));
    EXPECT_EQ(entry["top_logprobs"].size(), 2u);
  }
  EXPECT_EQ(bytes, spoken(44));
}

TEST_F(ServiceTest, several_prompts_and_choices_are_numbered_in_order) {
  const auto json = complete(R"({"prompt":["a","bb"],"n":2,"max_tokens":3,"seed":3,"temperature":1})");
  ASSERT_EQ(json["choices"].size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(json["choices"][i]["index"], i);
  EXPECT_EQ(json["usage"]["prompt_tokens"], 5);  // with BOS each
  EXPECT_EQ(json["usage"]["completion_tokens"], 12);
  EXPECT_EQ(json["choices"][0]["text"], json["choices"][2]["text"]);
  EXPECT_NE(json["choices"][0]["text"], json["choices"][1]["text"]);
  EXPECT_EQ(json["choices"][0]["text"],
            complete(R"({"prompt":"a","max_tokens":3,"seed":3,"temperature":1})")["choices"][0]["text"]);
}

TEST_F(ServiceTest, usage_can_come_with_every_event) {
  const auto parts = stream("/v1/completions", R"({"prompt":"x","max_tokens":4,"temperature":0,"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  std::vector<int> counts;
  for (const auto& event : parts.events) counts.push_back(event["usage"]["completion_tokens"].get<int>());
  EXPECT_TRUE(std::is_sorted(counts.begin(), counts.end()));
  EXPECT_EQ(counts.back(), 4);
  EXPECT_EQ(stream("/v1/completions", R"({"prompt":"x","max_tokens":4,"stream":true})").events.back().contains("usage"),
            false);
}

TEST_F(ServiceTest, refuses_with_both_numbers_what_does_not_fit) {
  auto response = post("/v1/completions", R"({"prompt":")" + std::string(600, 'a') + R"(","max_tokens":1})");
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("601"), std::string::npos);
  EXPECT_NE(response.body.find("512"), std::string::npos);
  EXPECT_NE(response.body.find("context_length_exceeded"), std::string::npos);
  response = post("/v1/completions", R"({"prompt":"abc","max_tokens":510,"stream":true})");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":["a",")" + std::string(600, 'a') + R"("],"max_tokens":1})").status,
            400);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"","add_special_tokens":false})").status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","max_tokens":2,"min_tokens":3})").status, 400);
  // A chat takes what is left of the context.
  EXPECT_EQ(ok("/v1/chat/completions",
               R"({"messages":[{"role":"user","content":"Hi"}],"temperature":0})")["usage"]["total_tokens"],
            512);
}

TEST_F(ServiceTest, refuses_texts_that_no_context_holds_before_it_tokenises_them) {
  // A token of ByteTokenizer is at most 6 bytes.
  const std::string large(512 * 6 + 1, 'a');
  for (const auto& [path, body] :
       {std::pair{"/v1/completions", R"({"prompt":")" + large + R"("})"},
        std::pair{"/v1/completions", R"({"prompt":["a",")" + large + R"("]})"},
        std::pair{"/v1/chat/completions", R"({"messages":[{"role":"user","content":")" + large + R"("}]})"}}) {
    const auto response = post(path, body);
    EXPECT_EQ(response.status, 400);
    EXPECT_NE(response.body.find("context_length_exceeded"), std::string::npos) << response.body;
    EXPECT_NE(response.body.find("512 tokens"), std::string::npos) << response.body;
    EXPECT_NE(response.body.find("3072 bytes"), std::string::npos) << response.body;
  }
  // One byte less may fit, so its tokens are counted.
  EXPECT_NE(post("/v1/completions", R"({"prompt":")" + large.substr(1) + R"("})").body.find("3073 tokens"),
            std::string::npos);
  EXPECT_EQ(ok("/tokenize", R"({"prompt":")" + large + R"("})")["count"], 3074);
  EXPECT_EQ(post("/tokenize", R"({"prompt":")" + std::string((8 << 20) + 1, 'a') + R"("})").status, 400);
}

TEST_F(ServiceTest, refuses_lists_of_ids_that_no_context_holds_before_it_parses_them) {
  std::string ids = "1";
  for (int i = 0; i < 5000; ++i) ids += ",1";
  for (const auto& [path, body] : {std::pair{"/v1/completions", R"({"prompt":[)" + ids + R"(],"n":)"},
                                   std::pair{"/v1/completions", R"({"prompt":[[1],[)" + ids + R"(]],"n":)"},
                                   std::pair{"/v1/chat/completions", R"({"messages":[)" + ids + R"(],"n":)"}}) {
    const auto response = post(path, body);
    EXPECT_EQ(response.status, 400);
    EXPECT_NE(response.body.find("context_length_exceeded"), std::string::npos) << response.body;
  }
  EXPECT_EQ(ok("/detokenize", R"({"tokens":[)" + ids + "]}")["prompt"].get<std::string>().size(), 5001u);
}

TEST_F(ServiceTest, logprobs_name_the_control_tokens_that_the_text_leaves_out) {
  stop();
  start([](const engine::SequenceRequest&, std::int64_t position) -> TokenId {
    return position == 0 ? 'a' : ByteTokenizer::kEos;
  });
  const auto json = complete(R"({"prompt":"x","max_tokens":2,"temperature":0,"logprobs":1,"ignore_eos":true})");
  EXPECT_EQ(json["choices"][0]["text"], "a");
  const auto& lp = json["choices"][0]["logprobs"];
  EXPECT_EQ(lp["tokens"].dump(), R"(["a","<eos>"])");
  EXPECT_EQ(lp["text_offset"].dump(), "[0,1]");
  EXPECT_TRUE(lp["top_logprobs"][1].contains("<eos>"));
}

TEST_F(ServiceTest, routes_and_methods) {
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/nothing").status, 404);
  EXPECT_EQ(post("/v1/nothing", "{}").status, 404);
  const auto wrong = get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(post("/health", "{}").headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(call(http_request("DELETE", "/v1/models")).status, 405);
  EXPECT_EQ(call(http_request("BREW", "/v1/models")).status, 405);
  EXPECT_NE(get("/v1/models").body.find("\"fake/model\""), std::string::npos);
  EXPECT_EQ(get("/v1/models/fake/model").status, 200);
  EXPECT_EQ(get("/v1/models/fake%2Fmodel").status, 200);
  const auto unknown = get("/v1/models/other");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("model_not_found"), std::string::npos);
  EXPECT_EQ(post("/v1/completions", R"({"model":"other","prompt":"x"})").status, 404);
  EXPECT_EQ(post("/v1/completions", "{").status, 400);
  const auto page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.headers.at("content-type").starts_with("text/html"));
  EXPECT_NE(page.body.find("</html>"), std::string::npos);
  EXPECT_EQ(get("/health", "Origin: https://evil.example\r\n").status, 400);
  EXPECT_FALSE(get("/health").headers.contains("access-control-allow-origin"));
}

TEST_F(ServiceTest, tokenize_detokenize_and_apply_template) {
  EXPECT_EQ(ok("/tokenize", R"({"prompt":"ab"})").dump(),
            R"({"count":3,"max_model_len":512,"tokens":[256,97,98],"token_strs":null})");
  EXPECT_EQ(
      ok("/tokenize", R"({"prompt":"ab","add_special_tokens":false,"return_token_strs":true})")["token_strs"].dump(),
      R"(["a","b"])");
  EXPECT_EQ(ok("/detokenize", R"({"tokens":[97,258,257]})")["prompt"], "aHello<eos>");
  EXPECT_EQ(ok("/apply-template", R"({"messages":[{"role":"user","content":"Hi"}]})")["prompt"],
            "[user] Hi\n[assistant] ");
  EXPECT_EQ(ok("/tokenize", R"({"messages":[{"role":"user","content":"Hi"}]})")["count"], 22);
  EXPECT_EQ(post("/detokenize", R"({"tokens":[99999]})").status, 400);
}

TEST_F(ServiceTest, metrics_count_what_usage_says) {
  const double prompt = metric("weir:prompt_tokens_total"), generated = metric("weir:generation_tokens_total");
  complete(R"({"prompt":"abc","max_tokens":6,"n":2})");
  complete(R"({"prompt":"abc","max_tokens":400,"temperature":0,"stop":"weir"})");
  EXPECT_EQ(metric("weir:prompt_tokens_total") - prompt, 8);
  EXPECT_EQ(metric("weir:generation_tokens_total") - generated, 12 + 8);
  EXPECT_EQ(metric("weir:request_success_total"), 2);
  for (const char* name : {"weir:num_requests_running", "weir:num_requests_waiting", "weir:kv_cache_usage_perc",
                           "weir:prefix_cache_queries_total", "weir:num_preemptions_total",
                           "weir:time_to_first_token_seconds_bucket", "weir:inter_token_latency_seconds_count",
                           "weir:e2e_request_latency_seconds_sum", "weir:request_queue_time_seconds_count"}) {
    EXPECT_NE(get("/metrics").body.find(name), std::string::npos) << name;
  }
}

TEST_F(ServiceTest, a_client_that_leaves_cancels_all_its_sequences) {
  const std::string body = R"({"prompt":"x","max_tokens":500,"n":4,"ignore_eos":true)";
  for (const bool streamed : {true, false}) {
    for (const bool reset : {true, false}) {
      const int before = engine_->cancelled();
      RawClient client(server_->port());
      client.send(http_request("POST", "/v1/completions", body + (streamed ? R"(,"stream":true})" : "}")));
      EXPECT_TRUE(eventually([&] { return engine_->stats().running == 4; }));
      reset ? client.reset() : client.close();
      EXPECT_TRUE(eventually([&] { return engine_->cancelled() == before + 4; }));
      EXPECT_TRUE(eventually([&] { return service_->active() == 0; }));
    }
  }
  EXPECT_EQ(complete(R"({"prompt":"x","max_tokens":5,"temperature":0})")["choices"][0]["text"], "The w");
}

TEST_F(ServiceTest, clients_that_come_and_go_at_any_moment_leave_nothing) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (unsigned i = 0; i < 25; ++i) {
        RawClient client(server_->port());
        client.send(http_request("POST", "/v1/completions",
                                 fmt::format(R"({{"prompt":"x","max_tokens":{},"stream":{}}})", 1 + i * 7 % 60,
                                             (i + t) % 2 ? "true" : "false")));
        std::this_thread::sleep_for(std::chrono::microseconds(i * t * 400 % 9000));
        if (i % 3 == 0) client.reset();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(eventually(
      [&] { return service_->active() == 0 && engine_->stats().running == 0 && server_->answering() == 0; }));
}

TEST_F(ServiceTest, an_engine_that_refuses_or_fails_gives_an_error) {
  engine_->break_next();
  const auto broken = post("/v1/completions", R"({"prompt":"x","n":2})");
  EXPECT_EQ(broken.status, 500);
  EXPECT_NE(broken.body.find("its logits hold a NaN"), std::string::npos) << broken.body;
  // The sequence beside the broken one is cancelled after the reply, and must not take the next break.
  EXPECT_TRUE(eventually([&] { return engine_->stats().running == 0; }));
  engine_->break_next();
  const auto response = post("/v1/completions", R"({"prompt":"x","stream":true})");
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.body.starts_with("data: {\"error\":")) << "no chunk with a finish_reason before it";
  EXPECT_NE(response.body.find("its logits hold a NaN"), std::string::npos) << response.body;
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  engine_->refuse();
  const auto refused = post("/v1/completions", R"({"prompt":"x","stream":true})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
}

TEST_F(ServiceTest, draining_refuses_new_requests_and_finishes_the_old) {
  RawClient client(server_->port());
  client.send(http_request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":300,"stream":true})"));
  EXPECT_TRUE(eventually([&] { return engine_->stats().running == 1; }));
  RawClient other(server_->port());
  other.send(http_request("GET", "/health"));
  EXPECT_EQ(other.response().status, 200);
  service_->drain();
  other.send(http_request("POST", "/v1/completions", R"({"prompt":"x"})"));
  EXPECT_EQ(other.response().status, 503);
  EXPECT_TRUE(client.response().body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(eventually([&] { return service_->active() == 0; }));
}

TEST_F(ServiceTest, giving_up_tells_the_clients) {
  RawClient streamed(server_->port()), whole(server_->port());
  streamed.send(http_request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":500,"stream":true})"));
  whole.send(http_request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":500})"));
  EXPECT_TRUE(eventually([&] { return engine_->stats().running == 2; }));
  service_->give_up_all();
  EXPECT_NE(streamed.response().body.find("shutting down"), std::string::npos);
  EXPECT_EQ(whole.response().status, 503);
}

TEST_F(ServiceTest, every_route_asks_for_the_key) {
  stop();
  service_ = std::make_unique<Service>();
  auto server = HttpServer::listen(
      "127.0.0.1", 0, {},
      [this](HttpRequest request, std::shared_ptr<Reply> reply) {
        service_->handle(std::move(request), std::move(reply));
      },
      [this](const HttpRequest& head) { return service_->wants_body(head); });
  ASSERT_TRUE(server);
  server_ = std::move(*server);
  service_->set_access(AccessPolicy("secret", true, "127.0.0.1"));
  server_->start();
  for (const char* path : {"/", "/health", "/metrics", "/v1/models", "/nothing"}) {
    const auto response = get(path);
    EXPECT_EQ(response.status, 401) << path;
    EXPECT_TRUE(response.headers.contains("www-authenticate")) << path;
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize", "/apply-template"}) {
    EXPECT_EQ(post(path, "{}").status, 401) << path;
    // The body never comes.
    EXPECT_EQ(call(fmt::format("POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000\r\n\r\n", path)).status,
              401);
  }
  EXPECT_EQ(get("/", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(get("/health", "Authorization: Bearer secret\r\n").status, 503);
}

}  // namespace
}  // namespace weir::api
