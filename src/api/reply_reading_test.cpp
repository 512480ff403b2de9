// Reasoning and tool calls as a client gets them: whole, streamed, with stop strings, choices and log-probabilities.
#include "api/service_testing.h"

namespace weir::api {
namespace {

constexpr std::string_view kTools =
    R"("tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}])";
constexpr std::string_view kMessages = R"("messages":[{"role":"user","content":"Weather?"}])";

text::parse::OutputFormat format_of(std::string_view reasoning, std::string_view tools) {
  auto format = text::parse::choose_format("", reasoning, tools);
  EXPECT_TRUE(format) << format.error().message;
  return *format;
}

// Says `text` and ends. "\1" stands for the token <bos>.
FakeEngine::Script saying(std::string text) {
  return [text = std::move(text)](const engine::SequenceRequest&, std::int64_t position) -> TokenId {
    const auto at = static_cast<std::size_t>(position);
    if (at >= text.size()) return ByteTokenizer::kEos;
    return text[at] == '\1' ? ByteTokenizer::kBos : static_cast<unsigned char>(text[at]);
  };
}

class ReplyReadingTest : public ServiceTest {
 protected:
  void serve(const std::string& reply, std::string_view reasoning = "qwen3", std::string_view tools = "hermes",
             const std::string& generation_prompt = "[assistant] ") {
    serve(reply, format_of(reasoning, tools), generation_prompt);
  }
  void serve(const std::string& reply, const text::parse::OutputFormat& format,
             const std::string& generation_prompt = "[assistant] ") {
    stop();
    start(saying(reply), std::chrono::microseconds(50), {}, format,
          "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% if not loop.last %}\n{% endif %}{% endfor %}"
          "{% if add_generation_prompt %}\n" +
              generation_prompt + "{% endif %}");
  }

  static std::string body(std::string_view more, bool tools = true) {
    return fmt::format("{{{},{}{}}}", kMessages, tools ? std::string(kTools) + "," : "", more);
  }
  Json choice(std::string_view more, bool tools = true) {
    return ok("/v1/chat/completions", body(more, tools))["choices"][0];
  }
  // The message that a stream adds up to, as clients put it together; its finish_reason beside it.
  Json streamed(std::string_view more, bool tools = true, int index = 0) {
    Json message = {{"content", ""}, {"reasoning_content", ""}, {"tool_calls", Json::array()}};
    std::string finish;
    for (const auto& event :
         stream("/v1/chat/completions", body(std::string(more) + R"(,"stream":true)", tools)).events) {
      for (const auto& choice : event["choices"]) {
        if (choice["index"] == index) add(choice["delta"], message);
        if (choice["index"] == index && choice["finish_reason"].is_string()) finish = choice["finish_reason"];
      }
    }
    return {{"message", message}, {"finish_reason", finish}};
  }

  static void add(const Json& delta, Json& message) {
    const auto join = [](Json& to, const Json& from) { to = to.get<std::string>() + from.get<std::string>(); };
    for (const char* name : {"content", "reasoning_content"})
      if (delta.contains(name)) join(message[name], delta[name]);
    EXPECT_EQ(delta.contains("reasoning"), delta.contains("reasoning_content"));
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      auto& calls = message["tool_calls"];
      const std::size_t index = call["index"];
      if (index == calls.size()) {
        // The name comes first, and once.
        EXPECT_FALSE(call["function"]["name"].get<std::string>().empty());
        EXPECT_EQ(call["type"], "function");
        calls.push_back({{"id", call["id"]}, {"type", "function"}, {"function", call["function"]}});
        continue;
      }
      EXPECT_FALSE(call.contains("id") || call["function"].contains("name"));
      join(calls.at(index)["function"]["arguments"], call["function"]["arguments"]);
    }
  }
};

const std::string kCall =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich 😀\"}}\n</tool_call>";

TEST_F(ReplyReadingTest, a_reply_has_reasoning_content_and_calls) {
  serve("<think>\nHm.\n</think>\n\nLet me see.\n" + kCall);
  for (const std::string fields : {R"("max_tokens":300)", R"("max_tokens":300,"logprobs":true,"top_logprobs":1)",
                                   R"("max_tokens":300,"stop":["never said"])"}) {
    const Json whole = choice(fields);
    EXPECT_EQ(whole["finish_reason"], "tool_calls");
    const Json& message = whole["message"];
    EXPECT_EQ(message["content"], "Let me see.");
    EXPECT_EQ(message["reasoning_content"], "Hm.");
    EXPECT_EQ(message["reasoning"], "Hm.");
    ASSERT_EQ(message["tool_calls"].size(), 1u);
    const Json& call = message["tool_calls"][0];
    EXPECT_EQ(call["type"], "function");
    EXPECT_FALSE(call["id"].get<std::string>().empty());
    EXPECT_EQ(call["function"]["name"], "get_weather");
    EXPECT_EQ(call["function"]["arguments"], "{\"city\": \"Zürich 😀\"}");
    const Json stream = streamed(fields);
    EXPECT_EQ(stream["finish_reason"], "tool_calls");
    for (const char* name : {"content", "reasoning_content"}) EXPECT_EQ(stream["message"][name], message[name]);
    EXPECT_EQ(stream["message"]["tool_calls"][0]["function"], call["function"]);
    EXPECT_NE(stream["message"]["tool_calls"][0]["id"], call["id"]);  // another request's
  }
}

TEST_F(ReplyReadingTest, a_call_alone_has_no_content) {
  serve(kCall + kCall);
  const Json message = choice(R"("max_tokens":300)")["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_FALSE(message.contains("reasoning_content"));
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_NE(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
  EXPECT_EQ(choice(R"("max_tokens":300,"parallel_tool_calls":false)")["message"]["tool_calls"].size(), 1u);
}

TEST_F(ReplyReadingTest, without_tools_calls_are_content) {
  serve(kCall);
  for (const auto& [fields, tools] :
       {std::pair{R"("max_tokens":300)", false}, std::pair{R"("max_tokens":300,"tool_choice":"none")", true}}) {
    const Json whole = choice(fields, tools);
    EXPECT_EQ(whole["message"]["content"], kCall);
    EXPECT_EQ(whole["finish_reason"], "stop");
    EXPECT_FALSE(whole["message"].contains("tool_calls"));
  }
}

TEST_F(ReplyReadingTest, a_reply_that_is_cut_off_keeps_its_reason) {
  serve(kCall);
  const Json whole = choice(R"("max_tokens":64)");
  EXPECT_EQ(whole["finish_reason"], "length");
  const std::string arguments = whole["message"]["tool_calls"][0]["function"]["arguments"];
  EXPECT_TRUE(std::string("{\"city\": \"Zürich 😀\"}").starts_with(arguments)) << arguments;
  EXPECT_EQ(choice(R"("max_tokens":12)")["message"]["content"], kCall.substr(0, 12));
}

TEST_F(ReplyReadingTest, reasoning_can_be_left_out) {
  serve("<think>Hm.</think>Yes.");
  EXPECT_FALSE(choice(R"("max_tokens":99,"include_reasoning":false)")["message"].contains("reasoning_content"));
  EXPECT_EQ(streamed(R"("max_tokens":99,"include_reasoning":false)")["message"]["reasoning_content"], "");
  EXPECT_EQ(choice(R"("max_tokens":99,"include_reasoning":false)")["message"]["content"], "Yes.");
}

TEST_F(ReplyReadingTest, the_prompt_may_have_opened_the_reasoning) {
  serve("Hm.</think>Yes.", "qwen3", "none", "[assistant] <think>\n");
  EXPECT_EQ(choice(R"("max_tokens":99)", false)["message"]["reasoning_content"], "Hm.");
  // The user's words are not the prompt's.
  const auto typed =
      ok("/v1/chat/completions",
         R"({"messages":[{"role":"user","content":"<think>"}],"add_generation_prompt":false,"max_tokens":99})");
  EXPECT_EQ(typed["choices"][0]["message"]["content"], "Hm.</think>Yes.");
}

TEST_F(ReplyReadingTest, a_continued_message_goes_on_where_it_was) {
  serve("hm.</think>Yes.");
  const auto go_on = [&](std::string_view text) {
    return ok("/v1/chat/completions",
              fmt::format(R"({{"messages":[{{"role":"user","content":"x"}},{{"role":"assistant","content":"{}"}}],)"
                          R"("continue_final_message":true,"add_generation_prompt":false,"max_tokens":99}})",
                          text))["choices"][0]["message"];
  };
  EXPECT_EQ(go_on("<think>Well,")["reasoning_content"], "hm.");
  EXPECT_EQ(go_on("<think>Well,")["content"], "Yes.");
  EXPECT_EQ(go_on("<think>a</think>Well,")["content"], "hm.</think>Yes.");
}

TEST_F(ReplyReadingTest, control_tokens_are_markers_for_the_parser_and_nothing_for_the_user) {
  text::parse::OutputFormat format;
  format.reasoning = text::parse::ReasoningNotation{"test", {"<bos>"}, {"</think>"}, {}, {}, false};
  serve("\1Hm.</think>Y\1es, <bos>.", format);
  for (const std::string fields :
       {R"("max_tokens":99)", R"("max_tokens":99,"stop":["never"])", R"("max_tokens":99,"stop":["m.<!","es, <b!"])"}) {
    const Json message = choice(fields, false)["message"];
    EXPECT_EQ(message["reasoning_content"], "Hm.es, <bos>.");  // the second <bos> is a token too, so it opens reasoning
    EXPECT_EQ(message["content"], "Y");
  }
}

TEST_F(ReplyReadingTest, stop_strings_end_reasoning_and_calls_alike) {
  serve("<think>Hm, hm.</think>" + kCall);
  const Json in_reasoning = choice(R"("max_tokens":300,"stop":["hm."])");
  EXPECT_EQ(in_reasoning["message"]["reasoning_content"], "Hm, ");
  EXPECT_TRUE(in_reasoning["message"]["content"].is_null());
  EXPECT_EQ(in_reasoning["stop_reason"], "hm.");
  EXPECT_EQ(in_reasoning["finish_reason"], "stop");
  EXPECT_EQ(choice(R"("max_tokens":300,"stop":["</tool_call>"])")["finish_reason"], "tool_calls");
}

TEST_F(ReplyReadingTest, choices_are_read_apart) {
  serve("<think>Hm.</think>" + kCall);
  for (int i = 0; i < 3; ++i) {
    const Json choice = streamed(R"("max_tokens":300,"n":3)", true, i);
    EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
    EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u);
  }
  const auto whole = ok("/v1/chat/completions", body(R"("max_tokens":300,"n":2)"));
  EXPECT_NE(whole["choices"][0]["message"]["tool_calls"][0]["id"],
            whole["choices"][1]["message"]["tool_calls"][0]["id"]);
}

TEST_F(ReplyReadingTest, mistral_gets_ids_of_nine_letters_and_digits) {
  serve("[TOOL_CALLS]get_weather[ARGS]{}", "none", "mistral");
  const std::string id = choice(R"("max_tokens":300)")["message"]["tool_calls"][0]["id"];
  EXPECT_EQ(id.size(), 9u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz"), std::string::npos);
}

TEST_F(ReplyReadingTest, templates_that_want_argument_texts_get_them) {
  stop();
  start(saying("ok"), std::chrono::microseconds(50), {}, {},
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{{ 'args ' + c.function.arguments }}{% "
        "endfor %}{% endfor %}");
  const auto rendered = ok("/apply-template", R"({"messages":[{"role":"assistant","content":"a","tool_calls":[
      {"id":"1","type":"function","function":{"name":"f","arguments":"{\"z\": 1}"}}]}]})");
  EXPECT_EQ(rendered["prompt"], "aargs {\"z\":1}");
}

// A model whose reply was cut off leaves such a call in the history; the chat must go on.
TEST_F(ReplyReadingTest, past_calls_with_broken_arguments_are_shown_as_they_are) {
  const auto prompt = [&](const std::string& arguments) {
    stop();
    start(saying("ok"), std::chrono::microseconds(50), {}, {},
          "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name }}: " + arguments +
              "{% endfor %}{% endfor %}");
    return ok("/apply-template", R"({"messages":[{"role":"assistant","tool_calls":[
        {"function":{"name":"f","arguments":"{\"z\": "}},{"function":{"name":"g","arguments":"{\"y\": 1}"}}]}]})")
        ["prompt"];
  };
  EXPECT_EQ(prompt("{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }};"),
            "f: {\"z\": ;g: {\"y\": 1};");
  EXPECT_EQ(prompt("{{ c.function.arguments + ';' }}"), "f: {\"z\": ;g: {\"y\":1};");
  EXPECT_EQ(prompt("{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}"),
            "f: arguments={\"z\": ;g: y=1;");
}

TEST_F(ReplyReadingTest, past_calls_are_shown_by_templates_that_ask_whether_content_is_none) {
  const std::string calls =
      "{% for c in m.tool_calls %}<{{ c.function.name + ' ' + c.function.arguments }}>{% endfor %}";
  const auto prompt = [&](const std::string& chat_template, const std::string& content) {
    stop();
    start(saying("ok"), std::chrono::microseconds(50), {}, {},
          "{% for m in messages %}" + chat_template + "{% endfor %}");
    return ok("/apply-template", R"({"messages":[{"role":"user","content":"u"},{"role":"assistant",)" + content +
                                     R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f",
                                        "arguments":"{}"}}]},{"role":"tool","content":"r","tool_call_id":"1"}]})")
        ["prompt"];
  };
  const std::string either = "{% if m.content is none %}" + calls + "{% else %}({{ m.content }}){% endif %}";
  for (const char* content : {R"("content":null,)", R"("content":"",)", ""})
    EXPECT_EQ(prompt(either, content), "(u)<f {}>(r)");
  EXPECT_EQ(prompt(either, R"("content":"a",)"), "(u)(a)(r)");
  // Where both are shown anyway, content stays the text that templates may join to others.
  EXPECT_EQ(prompt("({{ 'c' + m.content }})" + calls, R"("content":null,)"), "(cu)(c)<f {}>(cr)");
  // A template that knows no calls gets no none, which it would print.
  EXPECT_EQ(prompt("({{ m.content }})", R"("content":null,)"), "(u)()(r)");
}

}  // namespace
}  // namespace weir::api
