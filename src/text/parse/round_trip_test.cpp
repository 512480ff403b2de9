// What a model's own template makes of a reply with reasoning and tool calls, parsed back, is that reply. Templates:
// those of tests/golden/templates, and with WEIR_CONFORMANCE_DIR those of some sixty real models.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "text/chat_template.h"
#include "text/parse/testing.h"

namespace weir::text::parse {
namespace {

using testing::parse;
using testing::Parsed;

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object",
    "properties": {"city": {"type": "string", "description": "c"}, "days": {"type": "integer", "description": "n"},
                   "share": {"type": "number", "description": "s"}, "exact": {"type": "boolean", "description": "b"},
                   "opts": {"type": "object", "description": "o"}, "list": {"type": "array", "description": "l"}},
    "required": ["city"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "ping", "description": "d",
    "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": false}}}])");

constexpr std::string_view kUser = "USERQ", kContent = "CONTENT", kReason = "REASON";

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::filesystem::path> templates() {
  std::vector<std::filesystem::path> out;
  std::vector<std::string> folders = {WEIR_SOURCE_DIR "/tests/golden/templates"};
#ifdef WEIR_CONFORMANCE_DIR
  folders.push_back(WEIR_CONFORMANCE_DIR "/conformance/chat-templates/templates");
#endif
  if (const char* extra = std::getenv("WEIR_MORE_TEMPLATES")) folders = {extra};
  for (const auto& folder : folders) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".jinja") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<Rendered> render(const ChatTemplate& parsed, Json messages, bool generation_prompt) {
  RenderInput input;
  for (const bool texts : {false, true}) {
    if (texts) {
      for (Json& message : messages)
        for (Json& call : message.contains("tool_calls") ? message["tool_calls"] : message["none"])
          call["function"]["arguments"] = call["function"]["arguments"].dump();
    }
    input.messages = messages;
    input.tools = kTools;
    input.kwargs = {{"add_generation_prompt", generation_prompt}};
    input.bos_token = "<BOS>";
    input.eos_token = "<EOS>";
    auto rendered = parsed.render(input);
    if (rendered) return *rendered;
  }
  return std::nullopt;
}

// A reply as the template writes it after its own generation prompt, and how it starts.
struct Turn {
  std::string text;
  ReplyStart start;
};

std::optional<Turn> turn_of(const ChatTemplate& parsed, const OutputFormat& format, const Json& reply) {
  const Json user = {{"role", "user"}, {"content", kUser}};
  const auto prompt = render(parsed, Json::array({user}), true),
             whole = render(parsed, Json::array({user, reply}), false);
  if (!prompt || !whole) return std::nullopt;
  std::string head = prompt->text;
  auto ranges = prompt->user;
  if (!whole->text.starts_with(head)) {
    // The prompt says that there is to be no reasoning, the reply has some: back to where the prompt begins to say so.
    std::size_t same = 0;
    while (same < std::min(head.size(), whole->text.size()) && head[same] == whole->text[same]) ++same;
    const auto after_user = head.rfind(kUser) + kUser.size();
    for (const auto& marker : format.markers()) {
      const auto at = head.find(marker, after_user);
      if (at != std::string::npos) same = std::min(same, at);
    }
    head.resize(same);
  }
  Turn out{whole->text.substr(head.size()), reply_start(format, head, ranges, std::nullopt)};
  for (const std::string_view end : {"<|im_end|>",
                                     "<|eot_id|>",
                                     "<|eom_id|>",
                                     "<|eot|>",
                                     "<EOS>",
                                     "<|tool_response>",
                                     "<|end_of_text|>",
                                     "<|END_OF_TURN_TOKEN|>",
                                     "[|endofturn|]",
                                     "<seed:eos>",
                                     "[e~[",
                                     "<｜end▁of▁sentence｜>",
                                     "<|observation|>",
                                     "<|role_end|>",
                                     "</assistant>",
                                     "<SPECIAL_12>",
                                     "<end_of_sentence>",
                                     "<|end|>\n",
                                     "<|message_sep|>\n\n",
                                     "<turn|>",
                                     "<sep>",
                                     "<|eom|>",
                                     "</s>",
                                     "<｜hy_eos:opensource｜>",
                                     "<|close|>message<|sep|>"}) {
    // A reply may hold the mark of another message that it is made of.
    const auto at = format.tool_name() == "gigachat3" ? out.text.rfind(end) : out.text.find(end);
    if (at != std::string::npos && !format.harmony) out.text.resize(at);
  }
  return out;
}

Json call(const std::string& name, Json arguments, const std::string& id) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

// Erases what a template writes without escaping it.
void make_plain(Json& value, std::string_view unsafe) {
  if (value.is_structured())
    for (Json& inner : value) make_plain(inner, unsafe);
  if (!value.is_string()) return;
  auto& text = value.get_ref<std::string&>();
  std::erase_if(text, [&](char c) { return unsafe.find(c) != std::string_view::npos; });
}

// Erases what a template writes as nothing: null, and without a schema that tells them apart, {}, [] and "".
bool writes_something(const Json& value) {
  return !value.is_null() && !((value.is_structured() || value.is_string()) && value.empty());
}

Json without_nothing(const Json& value) {
  if (!value.is_structured()) return value;
  Json out = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, inner] : value.items()) {
    Json kept = without_nothing(inner);
    if (!writes_something(kept)) continue;
    if (value.is_array()) {
      out.push_back(std::move(kept));
    } else {
      out[key] = std::move(kept);
    }
  }
  return out;
}

Json random_text(std::mt19937& random) {
  static const std::vector<std::string> kParts = {"Paris", " ",  "ü", "😀",   "\"",   "\\", "'",  "<b>",  "</b>",
                                                  "{",     "}",  "[", "]",    ",",    ":",  "=",  "a\nb", "\t",
                                                  "&",     "$1", "3", "true", "null", "%",  "(x)"};
  std::string out = "t";
  for (int i = static_cast<int>(random() % 8); i > 0; --i) out += kParts[random() % kParts.size()];
  return out + "t";
}

Json random_value(std::mt19937& random, int depth) {
  switch (random() % (depth > 2 ? 5 : 7)) {
    case 0:
      return static_cast<int>(random() % 2000) - 1000;
    case 1:
      return 0.25 * static_cast<double>(random() % 100) + 0.25;
    case 2:
      return random() % 2 == 0;
    case 3:
      return nullptr;
    case 4:
      return random_text(random);
    case 5: {
      Json list = Json::array();
      for (int i = static_cast<int>(random() % 4); i > 0; --i) list.push_back(random_value(random, depth + 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (int i = static_cast<int>(random() % 4); i > 0; --i)
        object["k" + std::to_string(random() % 9)] = random_value(random, depth + 1);
      return object;
    }
  }
}

Json random_arguments(std::mt19937& random) {
  Json out = {{"city", random_text(random)}};
  if (random() % 2 == 0) out["days"] = static_cast<int>(random() % 100) - 50;
  if (random() % 2 == 0) out["share"] = 0.5 + static_cast<double>(random() % 10);
  if (random() % 2 == 0) out["exact"] = random() % 2 == 0;
  if (random() % 2 == 0) out["opts"] = {{"a", random_value(random, 0)}, {"b", random_value(random, 0)}};
  if (random() % 2 == 0) out["list"] = Json::array({random_value(random, 0), random_value(random, 0)});
  return out;
}

class RoundTripTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(RoundTripTest, a_reply_comes_back) {
  const std::string source = read(GetParam());
  const OutputFormat format = recognise_format(source);
  const auto parsed = ChatTemplate::parse(source);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto syntax = testing::syntax_of(format, kTools);
  std::mt19937 random(5);
  int seen = 0;
  for (int round = 0; round < 60; ++round) {
    Json reply = {{"role", "assistant"}, {"content", round % 2 == 0 ? kContent : ""}};
    if (round % 3 == 0) reply["reasoning_content"] = kReason;
    const bool two = round % 4 == 1;
    Json arguments = round == 0 ? Json{{"city", "Paris"}, {"days", 3}} : random_arguments(random);
    if (format.tool_name() == "minimax_m3") arguments = without_nothing(arguments);
    if (format.tool_name() == "lfm2") make_plain(arguments, "'\\\n\t");
    reply["tool_calls"] = Json::array({call("get_weather", arguments, "abcdef123")});
    if (two) reply["tool_calls"].push_back(call("ping", Json::object(), "bcdefg123"));
    const auto turn = turn_of(*parsed, format, reply);
    if (!turn || turn->text.find("get_weather") == std::string::npos) continue;  // this template does not write such
    ++seen;
    syntax->start = turn->start;
    Parsed got = parse(syntax, {turn->text});
    // Control tokens of Llama 4, which a reply's text does not show.
    for (const std::string marker : {"<|python_start|>", "<|python_end|>"})
      if (const auto at = got.content.find(marker); at != std::string::npos) got.content.erase(at, marker.size());
    // gpt-oss's template takes what comes before a call for analysis.
    if (format.harmony && got.content.empty() && got.reasoning == kContent) std::swap(got.content, got.reasoning);
    const bool ping = two && turn->text.find("ping") != std::string::npos;
    ASSERT_EQ(got.calls.size(), ping ? 2u : 1u) << turn->text << "\n" << got;
    EXPECT_EQ(got.calls[0].name, "get_weather");
    EXPECT_EQ(nlohmann::json::parse(got.calls[0].arguments, nullptr, false), nlohmann::json(arguments))
        << turn->text << "\n"
        << got;
    EXPECT_EQ(ping ? got.calls[1].name + got.calls[1].arguments : "ping{}", "ping{}") << got;
    const bool content = turn->text.find(kContent) != std::string::npos;
    const bool reason = turn->text.find(kReason) != std::string::npos;
    EXPECT_EQ(got.content, content ? kContent : "") << turn->text;
    EXPECT_EQ(got.reasoning, reason ? kReason : "") << turn->text;
  }
  if (format.tools || format.harmony) RecordProperty("replies", seen);
  RecordProperty("reasoning", std::string(format.reasoning_name()));
  RecordProperty("tools", std::string(format.tool_name()));
}

INSTANTIATE_TEST_SUITE_P(Templates, RoundTripTest, ::testing::ValuesIn(templates()), [](const auto& info) {
  std::string name = info.param.stem().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace weir::text::parse
