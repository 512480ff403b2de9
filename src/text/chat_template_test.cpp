// Rendering compared with what Jinja2 made of the same templates (tools/gen_template_tests.py), and the contract of
// ChatTemplate.

#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace weir::text {
namespace {

const std::string kFolder = std::string(WEIR_SOURCE_DIR) + "/tests/golden/templates/";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

Result<Rendered> render_context(const std::string& source, const Json& context, std::string_view now = {}) {
  WEIR_TRY(const ChatTemplate parsed, ChatTemplate::parse(source));
  return parsed.render_context(context, now);
}

void expect_as_recorded(const Json& record, const Result<Rendered>& result, const std::string& name) {
  if (record.contains("expected")) {
    ASSERT_TRUE(result) << name << ": " << result.error().message;
    EXPECT_EQ(result->text, record["expected"].get<std::string>()) << name;
    return;
  }
  ASSERT_FALSE(result) << name << ": expected the error " << record["error"] << ", got the text " << result->text;
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument) << name;
  if (record["error_kind"] == "raise_exception") {
    EXPECT_NE(result.error().message.find(record["error"].get<std::string>()), std::string::npos)
        << name << ": " << result.error().message;
  }
}

std::optional<std::string> token(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<std::string>();
}

TEST(ChatTemplateGolden, SmallTemplatesRenderAsInJinja2) {
  std::ifstream file(kFolder + "units.jsonl");
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const Json unit = Json::parse(line);
    const std::string name = unit["name"].get<std::string>() + " " + unit["template"].get<std::string>();
    expect_as_recorded(unit, render_context(unit["template"], unit["context"], unit["now"].get<std::string>()), name);
  }
  EXPECT_GT(count, 500);
}

TEST(ChatTemplateGolden, ConversationsRenderAsInTransformers) {
  std::ifstream file(kFolder + "chats.jsonl");
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const Json chat = Json::parse(line);
    const auto parsed = ChatTemplate::parse(read_file(kFolder + chat["template"].get<std::string>() + ".jinja"));
    ASSERT_TRUE(parsed) << parsed.error().message;
    const RenderInput input{chat["messages"],         chat["tools"], chat["kwargs"], token(chat["bos_token"]),
                            token(chat["eos_token"]), chat["now"]};
    expect_as_recorded(chat, parsed->render(input),
                       chat["template"].get<std::string>() + " " + chat["case"].get<std::string>());
  }
  EXPECT_GT(count, 200);
}

TEST(ChatTemplate, SyntaxErrorsSayWhere) {
  const auto parsed = ChatTemplate::parse("a\nb\n{% if x %}\n{{ 1 + }}\n{% endif %}");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parsed.error().message, "chat template, line 4: unexpected 'end of print statement'");
}

TEST(ChatTemplate, RunningErrorsSayWhere) {
  const auto result =
      render_context("{% macro m() %}\n{{ x.y.z }}{% endmacro %}\n\n{{ m() }}", Json{{"x", Json::object()}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "chat template, line 2: 'dict object' has no attribute 'y'");
}

TEST(ChatTemplate, BadTimeIsRefused) {
  const auto result = render_context("x", Json::object(), "yesterday");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().param, "now");
}

TEST(ChatTemplate, WithoutATimeTheClockIsRead) {
  const auto result = render_context("{{ strftime_now('%Y')|int > 2020 }}", Json::object());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->text, "True");
}

TEST(ChatTemplate, MessagesMustBeAnArray) {
  const auto parsed = ChatTemplate::parse("x");
  ASSERT_TRUE(parsed);
  RenderInput input;
  input.messages = "hello";
  const auto result = parsed->render(input);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().param, "messages");
}

TEST(ChatTemplate, KwargsWinOverTokensButNotOverMessages) {
  const auto parsed =
      ChatTemplate::parse("{{ bos_token }}{{ messages|length }}{{ tools }}{{ documents }}{{ add_generation_prompt }}");
  ASSERT_TRUE(parsed);
  RenderInput input;
  input.messages = Json::array({{{"role", "user"}}});
  input.bos_token = "<s>";
  input.kwargs = Json{{"bos_token", "<x>"}, {"messages", "m"}, {"documents", Json::array({1})}};
  const auto result = parsed->render(input);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->text, "<x>1None[1]False");
}

TEST(ChatTemplate, InvalidUtf8InputIsRepaired) {
  const auto result = render_context("{{ x }}{{ x|length }}", Json{{"x", "a\xff\xc3"}});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->text,
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "3");
}

TEST(ChatTemplate, InvalidUtf8TemplateIsRefused) {
  EXPECT_FALSE(ChatTemplate::parse("a\xff"));
}

TEST(ChatTemplate, RendersOnManyThreads) {
  const auto parsed = ChatTemplate::parse(read_file(kFolder + "thinking.jinja"));
  ASSERT_TRUE(parsed);
  RenderInput input;
  input.messages = Json::array({{{"role", "user"}, {"content", "hi"}}});
  const auto expected = parsed->render(input);
  ASSERT_TRUE(expected) << expected.error().message;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const auto result = parsed->render(input);
        ASSERT_TRUE(result);
        ASSERT_EQ(result->text, expected->text);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weir::text
