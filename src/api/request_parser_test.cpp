#include "api/request_parser.h"

#include <gtest/gtest.h>

#include "api/errors.h"

namespace weir::api {
namespace {

const ParseContext kContext{1000, {}};

Result<GenerationRequest> completion(std::string_view text) {
  return parse_json(text).and_then([](const Json& json) { return parse_completion_request(json, kContext); });
}

Result<ChatRequest> chat(std::string_view text) {
  return parse_json(text).and_then([](const Json& json) { return parse_chat_request(json, kContext); });
}

struct Bad {
  std::string text;
  std::string param;
};

// A completion body with one field set.
Bad with(const std::string& field, const std::string& value) {
  return {R"({"prompt":"Hi",")" + field + "\":" + value + "}", field};
}

TEST(RequestParser, refuses_completions_that_are_malformed_and_names_the_field) {
  std::vector<Bad> table = {
      {"", ""},
      {"   ", ""},
      {"{", ""},
      {R"({"prompt": "Hi", )", ""},
      {"[1, 2]", ""},
      {"\"hello\"", ""},
      {"17", ""},
      {R"({"prompt":"Hi"} x)", ""},
      {R"({"prompt":"Hi"}{})", ""},
      {"{\"prompt\":\"\xff\xfe\"}", ""},
      {"{\"prompt\":\"\xed\xa0\x80\"}", ""},
      {R"({"prompt":"\ud800"})", ""},
      {R"({"prompt":"Hi","temperature":NaN})", ""},
      {R"({"prompt":"Hi","temperature":Infinity})", ""},
      {R"({"prompt":"Hi","temperature":1e999})", ""},
      {"{}", "prompt"},
      {R"({"prompt":null})", "prompt"},
      {R"({"prompt":{}})", "prompt"},
      {R"({"prompt":5})", "prompt"},
      {R"({"prompt":true})", "prompt"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":[[]]})", "prompt"},
      {R"({"prompt":["a",1]})", "prompt"},
      {R"({"prompt":[1,"a"]})", "prompt"},
      {R"({"prompt":[[1],"a"]})", "prompt"},
      {R"({"prompt":[[1],[1.5]]})", "prompt"},
      {R"({"prompt":[true]})", "prompt"},
      {R"({"prompt":[1000]})", "prompt"},
      {R"({"prompt":[-1]})", "prompt"},
      {R"({"prompt":[1180591620717411303424]})", "prompt"},
      {R"({"prompt":"Hi","stream_options":{"include_usage":true}})", "stream_options"},
      {R"({"prompt":"Hi","stream":true,"stream_options":{"include_usage":1}})", "stream_options.include_usage"},
      {R"({"prompt":"Hi","stream":true,"stream_options":5})", "stream_options"},
      {R"({"prompt":"Hi","n":2,"best_of":3})", "best_of"},
      {R"({"prompt":["a","b","c","d","e","f","g","h","i"],"n":128})", "n"},
  };
  for (const auto& [field, values] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"max_tokens",
            {"\"ten\"", "1.5", "-1", "1180591620717411303424", "-1180591620717411303424", "true", "[]",
             "18446744073709551615"}},
           {"min_tokens", {"-1", "0.5", "\"1\""}},
           {"temperature", {"\"hot\"", "-1", "2.01", "100", "true", "[1]", "{}", "-1e-9"}},
           {"top_p", {"1.5", "-0.1", "0", "\"x\""}},
           {"top_k", {"-5", "1.5", "\"x\"", "1e12"}},
           {"min_p", {"2", "-1"}},
           {"presence_penalty", {"5", "-2.5", "\"x\""}},
           {"frequency_penalty", {"-5", "2.5"}},
           {"repetition_penalty", {"0", "-1", "1e30", "101", "9e-7", "1e-38", "1e-50"}},
           {"logprobs", {"21", "1000", "-5", "true", "\"x\"", "1.5"}},
           {"prompt_logprobs", {"21", "-2", "\"x\""}},
           {"n", {"0", "-1", "129", "1000000000", "\"two\"", "1.5"}},
           {"stop",
            {"5", "[5]", "[\"a\",5]", "\"\"", "[\"\"]", "{}",
             R"(["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])",
             "\"" + std::string(5000, 'x') + "\""}},
           {"stop_token_ids", {"5", "[\"x\"]", "[-1]", "[1000]", "[1.5]"}},
           {"logit_bias",
            {"[1]", "{\"abc\":1}", "{\"-1\":5}", "{\"1000\":5}", "{\"99999999\":5}", "{\"1\":\"x\"}", "{\"1 \":5}",
             "{\"\":5}", "{\"99999999999999999999\":5}", "5"}},
           {"stream", {"\"maybe\"", "1", "[]"}},
           {"echo", {"\"yes\"", "1"}},
           {"seed", {"\"x\"", "1.5", "1180591620717411303424"}},
           {"model", {"5", "[]"}},
           {"user", {"5"}},
           {"priority", {"1.5", "\"x\"", "99999999999"}},
           {"cache_salt", {"5"}},
           {"ignore_eos", {"1"}},
           {"skip_special_tokens", {"\"x\""}},
           {"include_stop_str_in_output", {"0"}},
           {"response_format",
            {"\"json\"", "{}", "{\"type\":\"poem\"}", "{\"type\":5}", "{\"type\":\"json_object\"}",
             "{\"type\":\"json_schema\"}"}},
           {"suffix", {"\"x\""}},
           {"use_beam_search", {"true"}},
           {"functions", {R"([{"name":"f"}])"}},
           {"function_call", {"\"f\"", R"({"name":"f"})"}},
           {"modalities", {R"(["audio"])", R"(["text","audio"])", "\"text\"", "5"}},
           {"web_search_options", {"{}", "5"}},
           {"detokenize", {"false", "0"}},
           {"metadata", {"5", "\"x\""}},
           {"prediction", {"5"}},
           {"length_penalty", {"\"x\""}},
           {"store", {"1"}},
           {"service_tier", {"5"}},
           {"parallel_tool_calls", {"\"x\""}},
           {"guided_json", {"{}"}},
           {"best_of", {"2", "0", "\"x\""}},
       }) {
    for (const auto& value : values) table.push_back(with(field, value));
  }
  for (const auto& bad : table) {
    const auto parsed = completion(bad.text);
    ASSERT_FALSE(parsed) << bad.text.substr(0, 200);
    EXPECT_EQ(http_status(parsed.error()), 400) << bad.text.substr(0, 200);
    EXPECT_EQ(parsed.error().param, bad.param) << bad.text.substr(0, 200);
    EXPECT_FALSE(parsed.error().message.empty());
    EXPECT_LT(parsed.error().message.size(), 1000u) << bad.text.substr(0, 200);
    EXPECT_TRUE(parse_json(error_body(parsed.error()))) << bad.text.substr(0, 200);
  }
}

TEST(RequestParser, reads_every_field_of_a_completion) {
  const auto parsed = completion(
      R"({"model":"m","prompt":[[1,2],[3]],"max_tokens":7,"min_tokens":2,"temperature":0.5,"top_p":0.25,"top_k":-1,"min_p":0.125,
      "repetition_penalty":1.5,"presence_penalty":-2,"frequency_penalty":2,"logit_bias":{"5":-200,"7":1.5},"seed":-3,"n":2,"best_of":2,"stop":["a","b"],
      "stop_token_ids":[9],"include_stop_str_in_output":true,"ignore_eos":true,"logprobs":0,"prompt_logprobs":3,"echo":true,"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true},"return_token_ids":true,"return_tokens_as_token_ids":true,
      "skip_special_tokens":false,"add_special_tokens":false,"priority":-4,"cache_salt":"s","user":"u","response_format":{"type":"text"},
      "suffix":null,"best_of":2,"functions":[],"function_call":"auto","modalities":["text"],"detokenize":true,"metadata":{"a":"b"},
      "prediction":{"type":"content","content":"x"},"length_penalty":1.5,"store":false,"service_tier":"auto","parallel_tool_calls":true,"unknown_field":{"x":[1]}})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& s = parsed->sampling;
  EXPECT_EQ(parsed->model, "m");
  EXPECT_EQ(std::get<std::vector<TokenId>>(parsed->prompts[0]), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(parsed->max_tokens, 7);
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.temperature, 0.5f);
  EXPECT_EQ(s.top_p, 0.25f);
  EXPECT_EQ(s.top_k, 0);
  EXPECT_EQ(s.min_p, 0.125f);
  EXPECT_EQ(s.repetition_penalty, 1.5f);
  EXPECT_EQ(s.presence_penalty, -2.0f);
  EXPECT_EQ(s.frequency_penalty, 2.0f);
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<TokenId, float>>{{5, -100.0f}, {7, 1.5f}}));
  EXPECT_EQ(parsed->seed, static_cast<std::uint64_t>(-3));
  EXPECT_EQ(parsed->n, 2);
  EXPECT_EQ(parsed->stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.stop_token_ids, (std::vector<TokenId>{9}));
  EXPECT_TRUE(parsed->include_stop && s.ignore_eos && parsed->echo && parsed->stream && parsed->include_usage &&
              parsed->continuous_usage);
  EXPECT_TRUE(parsed->return_token_ids && parsed->tokens_as_ids);
  EXPECT_FALSE(parsed->skip_special_tokens || parsed->add_special_tokens);
  EXPECT_EQ(parsed->logprobs, 0);
  EXPECT_EQ(parsed->prompt_logprobs, 3);
  EXPECT_EQ(parsed->priority, -4);
  EXPECT_EQ(parsed->cache_salt, "s");
}

TEST(RequestParser, null_means_absent) {
  const auto parsed = completion(
      R"({"prompt":"Hi","max_tokens":null,"temperature":null,"stop":null,"n":null,"logit_bias":null,"seed":null,"stream":null,"logprobs":null,"stream_options":null})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->max_tokens, 16);
  EXPECT_EQ(parsed->sampling.temperature, 1.0f);
  EXPECT_EQ(parsed->logprobs, -1);
  EXPECT_FALSE(parsed->seed);
}

TEST(RequestParser, takes_whole_numbers_written_as_floats_and_large_seeds) {
  const auto parsed = completion(R"({"prompt":"Hi","max_tokens":5.0,"seed":18446744073709551615})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->max_tokens, 5);
  EXPECT_EQ(parsed->seed, 18446744073709551615ull);
}

TEST(RequestParser, fields_left_open_take_the_models_recommendation) {
  const ParseContext context{1000, {0.6f, 0.9f, 1.1f, 40}};
  const auto parsed = parse_json(R"({"prompt":"Hi","top_p":0.5})").and_then([&](const Json& json) {
    return parse_completion_request(json, context);
  });
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->sampling.temperature, 0.6f);
  EXPECT_EQ(parsed->sampling.top_p, 0.5f);
  EXPECT_EQ(parsed->sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(parsed->sampling.top_k, 40);
}

TEST(RequestParser, refuses_chats_that_are_malformed) {
  const auto body = [](const std::string& messages, const std::string& more = "") {
    return R"({"messages":)" + messages + more + "}";
  };
  const std::string hi = R"([{"role":"user","content":"Hi"}])";
  const std::string tool =
      R"({"type":"function","function":{"name":"a","parameters":{"type":"object","properties":{}}}})";
  for (const auto& text : {
           std::string("{}"),
           body("\"hello\""),
           body("[]"),
           body("[1]"),
           body(R"([{"content":"Hi"}])"),
           body(R"([{"role":5,"content":"Hi"}])"),
           body(R"([{"role":"","content":"Hi"}])"),
           body(R"([{"role":"user"}])"),
           body(R"([{"role":"user","content":null}])"),
           body(R"([{"role":"user","content":5}])"),
           body(R"([{"role":"user","content":{}}])"),
           body(R"([{"role":"user","content":[5]}])"),
           body(R"([{"role":"user","content":[{"type":"text"}]}])"),
           body(R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])"),
           body(R"([{"role":"user","content":"Hi","name":5}])"),
           body(R"([{"role":"assistant","tool_calls":5}])"),
           body(R"([{"role":"assistant","tool_calls":[{"function":5}]}])"),
           body(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[1]}}]}])"),
           body(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":5}}]}])"),
           body(hi, R"(,"tools":"none")"),
           body(hi, R"(,"tools":[5])"),
           body(hi, R"(,"tools":[{"type":"function"}])"),
           body(hi, R"(,"tools":[{"type":"function","function":{"name":5}}])"),
           body(hi, R"(,"tools":[{"type":"function","function":{"name":"a","parameters":5}}])"),
           body(hi, R"(,"tools":[{"type":"function","function":{"name":"a","parameters":{"type":"cheese"}}}])"),
           body(hi, R"(,"tools":[)" + tool + R"(],"tool_choice":{"type":"function","function":{"name":"b"}})"),
           body(hi, R"(,"tools":[)" + tool + R"(],"tool_choice":{"type":"function","function":{"name":"a"}})"),
           body(hi, R"(,"tools":[)" + tool + R"(],"tool_choice":"required")"),
           body(hi, R"(,"tool_choice":"required")"),
           body(hi, R"(,"tool_choice":"perhaps")"),
           body(hi, R"(,"tool_choice":5)"),
           body(hi, R"(,"logprobs":5)"),
           body(hi, R"(,"logprobs":true,"top_logprobs":21)"),
           body(hi, R"(,"logprobs":true,"top_logprobs":-1)"),
           body(hi, R"(,"top_logprobs":3)"),
           body(hi, R"(,"max_completion_tokens":-1)"),
           body(hi, R"(,"continue_final_message":true,"add_generation_prompt":true)"),
           body(hi, R"(,"chat_template_kwargs":5)"),
           body(hi, R"(,"chat_template_kwargs":{"messages":[]})"),
           body(hi, R"(,"documents":5)"),
           body(hi, R"(,"documents":[1],"chat_template_kwargs":{"documents":[2]})"),
           body(hi, R"(,"reasoning_effort":5)"),
           body(hi, R"(,"chat_template_kwargs":{"add_generation_prompt":"no"})"),
           body(hi, R"(,"add_generation_prompt":true,"chat_template_kwargs":{"add_generation_prompt":false})"),
           body(hi, R"(,"chat_template_kwargs":{"continue_final_message":true,"add_generation_prompt":true})"),
           body(hi, R"(,"functions":[{"name":"f"}])"),
           body(hi, R"(,"echo":true)"),
           body(hi,
                R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"cheese"}}})"),
           body(hi,
                R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}})"),
       }) {
    const auto parsed = chat(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(http_status(parsed.error()), 400) << text;
    EXPECT_FALSE(parsed.error().param.empty()) << text;
  }
}

TEST(RequestParser, prepares_messages_for_the_template) {
  const auto parsed =
      chat(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":2}"}}]},
      {"role":"tool","tool_call_id":"1","content":"ok"}],"chat_template_kwargs":{"enable_thinking":false},"max_tokens":3,"max_completion_tokens":9,
      "logprobs":true,"top_logprobs":2,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto"})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->chat.messages[0]["content"], "a\nb");
  EXPECT_EQ(parsed->chat.messages[1]["tool_calls"][0]["function"]["arguments"].dump(), R"({"z":1,"a":2})");
  EXPECT_EQ(parsed->chat.kwargs["enable_thinking"], false);
  EXPECT_EQ(parsed->chat.kwargs["add_generation_prompt"], true);
  EXPECT_EQ(parsed->chat.tools.size(), 1u);
  EXPECT_EQ(parsed->generation.max_tokens, 9);
  EXPECT_EQ(parsed->generation.logprobs, 2);
  EXPECT_FALSE(parsed->generation.add_special_tokens);
}

TEST(RequestParser, what_the_template_is_told_can_be_said_in_either_place) {
  const auto kwargs = [](const std::string& more) {
    const auto parsed = chat(R"({"messages":[{"role":"user","content":"Hi"}])" + more + "}");
    EXPECT_TRUE(parsed) << more << ": " << (parsed ? "" : parsed.error().message);
    return parsed ? parsed->chat.kwargs.dump() : "";
  };
  EXPECT_EQ(kwargs(""), R"({"add_generation_prompt":true})");
  for (const std::string flag : {R"("add_generation_prompt":false)", R"("continue_final_message":true)"}) {
    const std::string in_kwargs = R"(,"chat_template_kwargs":{)" + flag + "}";
    EXPECT_EQ(kwargs("," + flag), kwargs(in_kwargs));
    EXPECT_EQ(kwargs("," + flag), kwargs("," + flag + in_kwargs));
    EXPECT_NE(kwargs("," + flag), kwargs(""));
  }
  EXPECT_EQ(kwargs(R"(,"add_generation_prompt":false)"), R"({"add_generation_prompt":false})");
  EXPECT_EQ(kwargs(R"(,"reasoning_effort":"low")"), R"({"reasoning_effort":"low","add_generation_prompt":true})");
}

TEST(RequestParser, missing_content_is_an_empty_text) {
  const auto parsed = chat(
      R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f"}}]},
      {"role":"assistant","tool_calls":[{"function":{"name":"f"}}]},{"role":"assistant"}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(parsed->chat.messages[i]["content"], "") << i;
}

TEST(RequestParser, seeds_have_64_bits) {
  EXPECT_EQ(completion(R"({"prompt":"x","seed":-1})")->seed, 18446744073709551615ull);
  EXPECT_EQ(completion(R"({"prompt":"x","seed":9223372036854775808})")->seed, 9223372036854775808ull);
  const auto large = completion(R"({"prompt":"x","seed":18446744073709551616})");
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().message.find("18446744073709551615"), std::string::npos) << large.error().message;
}

TEST(RequestParser, tool_choice_none_hides_the_tools) {
  const auto parsed = chat(
      R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none"})");
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->chat.tools.is_null());
}

TEST(RequestParser, refuses_json_that_is_expensive_out_of_proportion) {
  EXPECT_FALSE(parse_json(std::string(20000, '[')));
  std::string nested;
  for (int i = 0; i < 20000; ++i) nested += R"({"a":)";
  EXPECT_FALSE(parse_json(nested));
  std::string members = "{";
  for (int i = 0; i < 100000; ++i) members += fmt::format("\"{}\":1,", i);
  EXPECT_FALSE(parse_json(members + "\"x\":1}"));
  // Brackets inside strings are no nesting.
  EXPECT_TRUE(parse_json("\"" + std::string(20000, '[') + "\\\"[[\""));
}

// Refused from the text: the bodies below do not even end, which the parser would find out only after building them.
TEST(RequestParser, refuses_lists_that_no_model_takes_before_it_builds_them) {
  const auto refusal = [](const std::string& text, const JsonLimits& limits = {}) {
    const auto parsed = parse_json(text, limits);
    EXPECT_FALSE(parsed);
    return parsed ? Error{} : parsed.error();
  };
  const auto repeat = [](std::string_view piece, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i) out += piece;
    return out;
  };
  const JsonLimits small{.list_numbers = 5};
  EXPECT_EQ(refusal(R"({"prompt":[ 1,2,3,4,5,6)", small).code, ErrorCode::kContextLengthExceeded);
  EXPECT_EQ(refusal(R"({"prompt":[[1],[-1,2,3,4,5,6)", small).code, ErrorCode::kContextLengthExceeded);
  EXPECT_TRUE(parse_json(R"({"prompt":[1,2,3,4,5],"tools":["a","b","c","d","e","f","g"]})", small));
  EXPECT_TRUE(parse_json("[\"" + repeat("1,", 1000) + "\"]", small)) << "commas in strings separate nothing";

  const std::size_t values = JsonLimits::kMaxValues, numbers = JsonLimits::kMaxListNumbers;
  EXPECT_EQ(refusal("[" + repeat("{},", values)).code, ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("[" + repeat("\"\",", values)).code, ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("[" + repeat("[1," + repeat("1,", 999) + "1],", numbers / 1000)).code, ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("[" + repeat("1,", numbers)).code, ErrorCode::kContextLengthExceeded);
}

TEST(RequestParser, reads_tokenize_and_detokenize) {
  const auto tokenize = [](std::string_view text) {
    return parse_json(text).and_then([](const Json& json) { return parse_tokenize_request(json); });
  };
  EXPECT_EQ(tokenize(R"({"prompt":"x"})")->prompt, "x");
  EXPECT_TRUE(tokenize(R"({"prompt":"x"})")->add_special_tokens);
  EXPECT_FALSE(tokenize(R"({"messages":[{"role":"user","content":"x"}]})")->add_special_tokens);
  EXPECT_FALSE(tokenize("{}"));
  EXPECT_FALSE(tokenize(R"({"prompt":5})"));
  const auto detokenize = [](std::string_view text) {
    return parse_json(text).and_then([](const Json& json) { return parse_detokenize_request(json, 10); });
  };
  EXPECT_EQ(detokenize(R"({"tokens":[1,9]})")->tokens, (std::vector<TokenId>{1, 9}));
  EXPECT_FALSE(detokenize(R"({"tokens":[10]})"));
  EXPECT_FALSE(detokenize(R"({"tokens":"x"})"));
}

}  // namespace
}  // namespace weir::api
