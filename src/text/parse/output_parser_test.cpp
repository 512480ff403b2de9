// Replies in every notation: what comes out of them, that it does not matter how they are cut, and that nothing is
// lost. The replies are what the models' own templates make of such calls.
#include "text/parse/output_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "text/parse/testing.h"

namespace weir::text::parse {
namespace {

using testing::Call;
using testing::parse;
using testing::Parsed;
using testing::syntax_of;

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "opts": {"type": "object"},
    "exact": {"type": ["boolean", "null"]}}}}},
  {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}])");

const std::string kArguments = R"({"city": "Paris", "days": 3, "opts": {"a": [1, true, null]}})";
const Call kWeather = {"get_weather", kArguments};
const Call kPing = {"ping", "{}"};

struct Example {
  std::string reasoning, tools;  // parsers
  std::string text;
  Parsed expected;
  bool opened = false;  // the prompt has opened the reasoning
};

std::vector<Example> examples();

std::shared_ptr<const ReplySyntax> syntax_of(const Example& example) {
  auto format = choose_format("", example.reasoning, example.tools);
  EXPECT_TRUE(format) << format.error().message;
  auto syntax = syntax_of(*format, kTools);
  syntax->start.reasoning = example.opened;
  return syntax;
}

std::vector<std::string_view> cut(std::string_view text, std::mt19937& random, std::size_t longest) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t n = std::min<std::size_t>(1 + random() % longest, text.size());
    pieces.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return pieces;
}

TEST(OutputParserTest, finds_reasoning_and_calls) {
  for (const auto& example : examples()) {
    EXPECT_EQ(parse(syntax_of(example), {example.text}), example.expected)
        << example.reasoning << " " << example.tools << ": " << example.text;
  }
}

TEST(OutputParserTest, any_cut_gives_the_same) {
  std::mt19937 random(1);
  for (const auto& example : examples()) {
    const auto syntax = syntax_of(example);
    const std::string_view text = example.text;
    for (std::size_t i = 0; i <= text.size(); ++i)
      ASSERT_EQ(parse(syntax, {text.substr(0, i), text.substr(i)}), example.expected) << text << " at " << i;
    for (int i = 0; i < 20; ++i) ASSERT_EQ(parse(syntax, cut(text, random, 1 + i)), example.expected) << text;
  }
}

TEST(OutputParserTest, whole_calls_are_the_same_calls) {
  std::mt19937 random(3);
  for (const auto& example : examples()) {
    // Streams cannot take back the beginning of a call that breaks off.
    const bool broken =
        std::ranges::any_of(example.expected.calls, [](const Call& call) { return !Json::accept(call.arguments); });
    if (broken) continue;
    auto syntax = std::make_shared<ReplySyntax>(*syntax_of(example));
    syntax->whole_calls = true;
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(parse(syntax, cut(example.text, random, 1 + 10 * static_cast<std::size_t>(i))), example.expected)
          << example.text;
  }
}

TEST(OutputParserTest, a_call_that_must_be_whole_and_breaks_off_is_content) {
  const auto read = [](const std::string& tools, const std::string& text, bool cut_off = false) {
    auto syntax = syntax_of(*choose_format("", "none", tools), kTools);
    syntax->whole_calls = true;
    OutputParser parser(syntax);
    Delta whole;
    for (const char& c : text) parser.feed({&c, 1}, false, whole);
    parser.finish(whole, cut_off);
    EXPECT_EQ(parser.calls(), whole.calls.size());
    return testing::collect(whole);
  };
  const std::string ping = "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>\n";
  const std::string wrong = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": Paris}}\n</tool_call>";
  EXPECT_EQ(read("hermes", "So:\n" + wrong + " tail"), (Parsed{"So:\n" + wrong + " tail", "", {}}));
  EXPECT_EQ(read("hermes", ping + wrong), (Parsed{wrong, "", {kPing}}));
  EXPECT_EQ(read("hermes", wrong + ping), (Parsed{wrong, "", {kPing}}));
  const std::string open = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par";
  EXPECT_EQ(read("hermes", open), (Parsed{open, "", {}}));
  // The limit of tokens, not the model, ended it: whoever asked can tell by the finish reason.
  EXPECT_EQ(read("hermes", open, true), (Parsed{"", "", {{"get_weather", "{\"city\": \"Par"}}}));
  const std::string tags = "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar";
  EXPECT_EQ(read("qwen3_coder", tags), (Parsed{tags, "", {}}));
}

TEST(OutputParserTest, whole_calls_have_valid_arguments_whatever_the_reply) {
  for (const auto& example : examples()) {
    auto syntax = std::make_shared<ReplySyntax>(*syntax_of(example));
    syntax->whole_calls = true;
    for (std::size_t i = 0; i <= example.text.size(); ++i) {
      for (const Call& call : parse(syntax, {std::string_view(example.text).substr(0, i)}).calls)
        EXPECT_TRUE(Json::accept(call.arguments)) << call.arguments << " of " << example.text.substr(0, i);
    }
    for (std::size_t i = 0; i < example.text.size(); ++i) {
      if (static_cast<unsigned char>(example.text[i]) >= 0x80) continue;  // a reply is UTF-8
      std::string spoiled = example.text;
      spoiled[i] = '}';
      for (const Call& call : parse(syntax, {spoiled}).calls)
        EXPECT_TRUE(Json::accept(call.arguments)) << call.arguments << " of " << spoiled;
    }
  }
}

TEST(OutputParserTest, every_beginning_of_a_reply_parses_and_only_grows) {
  for (const auto& example : examples()) {
    const auto syntax = syntax_of(example);
    OutputParser parser(syntax);
    std::size_t begun = 0;
    Delta whole;
    for (const char c : example.text) {
      Delta delta;
      parser.feed({&c, 1}, false, delta);
      for (const auto& call : delta.calls) {
        EXPECT_EQ(call.first, call.index == begun) << example.text;
        begun = std::max(begun, call.index + 1);
        EXPECT_EQ(call.first, !call.name.empty());
      }
      EXPECT_EQ(parser.calls(), begun);
      whole.append(std::move(delta));
      EXPECT_TRUE(example.expected.content.starts_with(whole.content)) << example.text;
      EXPECT_TRUE(example.expected.reasoning.starts_with(whole.reasoning)) << example.text;
    }
  }
}

// What stands in templates of such models, around tools and past replies.
TEST(OutputParserTest, a_template_tells_its_notation) {
  struct Case {
    std::string text, reasoning, tools;
  };
  const std::vector<Case> cases = {
      {"{{ messages }}", "none", "none"},
      {"{% if tools %}{{ tools | tojson }} function{% endif %}", "none", "json"},
      {"<think>\n{{ r }}\n</think> <tool_call>\n{{ c }}</tool_call>", "qwen3", "hermes"},
      {"<think></think> <tool_call>\n<function=x>\n<parameter=y>", "qwen3", "qwen3_coder"},
      {"<tool_response><response> <think> <minimax:tool_call>", "qwen3", "minimax_m2"},
      {"<|start_of_role|> <think></think><response></response> <|tool_call|>", "granite", "granite"},
      {"<seed:think> <seed:tool_call><function=a><parameter=b>", "seed_oss", "seed_oss"},
      {"</think> <tool_call>{{ name }}<arg_key>", "qwen3", "glm45"},
      {"split('</think>') <｜tool▁calls▁begin｜> ```json", "qwen3", "deepseek_v3"},
      {"<think> <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "qwen3", "deepseek_v31"},
      {"{% set dsml = '｜DSML｜' %}", "none", "deepseek_v32"},
      {"<|tool_calls_section_begin|>", "none", "kimi_k2"},
      {"[THINK] [TOOL_CALLS] [ARGS]", "mistral", "mistral"},
      {"<|START_THINKING|> <|START_ACTION|>", "cohere_command3", "cohere_command3"},
      {"<|channel>thought <|tool_call>call:", "gemma4", "gemma4"},
      {"<|start|>assistant<|channel|>final<|message|>", "openai_gptoss", "openai"},
      {"<|python_tag|> {\"name\": , \"parameters\": }", "none", "llama3_json"},
      {"<tool_calls>[", "none", "jamba"},
      {"<TOOLCALL>", "none", "nemotron_json"},
      {"<function_calls>", "none", "olmo3"},
      {"'function call' <|role_sep|>", "none", "gigachat3"},
      {"[gMASK]<sop>{{ tool | tojson }}\n请使用 Json 格式表示调用的参数。", "none", "glm4"},
      {"'<|tool|>' + message['tools'] + '<|/tool|>'", "none", "phi4_mini_json"},
      {"'<|start|>assistant to=self<|message|>' <atem:function_calls>", "muse_glimmer", "muse_glimmer"},
      {"<|begin|>assistant<|think|> <|tool_call:begin|>", "solar_open", "solar_open"},
      {"'<|open|>' open_tag('think') open_tag('tools')", "kimi_k3", "kimi_k3"},
      {"']<]minimax[>[' '<tool_call>' '<mm:think>'", "minimax_m3", "minimax_m3"},
      {"'<think{}>'.format(x) '<tool_sep{}>' '<arg_key{}>' '<tool_call{}>'", "hy_v3", "hy_v3"},
      {"'<|function_call|>' '<|role_sep|>'", "none", "gigachat3"},
      {">>>${recipient} '>>>all' <|python_tag|>", "functionary_v3.2", "functionary_v3.2"},
      {"'List of tools: [' </think>", "qwen3", "lfm2"},
      {"part.split('<channel|>') '<|channel>' '<|tool_call>call:'", "gemma4", "gemma4"},
      {"<steptml:invoke name=", "none", "step3"},
  };
  for (const auto& c : cases) {
    const auto format = recognise_format(c.text);
    EXPECT_EQ(format.reasoning_name(), c.reasoning) << c.text;
    EXPECT_EQ(format.tool_name(), c.tools) << c.text;
    EXPECT_EQ(choose_format(c.text, "none", "none")->plain(), true);
  }
  EXPECT_FALSE(choose_format("", "qwen", ""));
  EXPECT_FALSE(choose_format("", "", "hermes2"));
  EXPECT_EQ(choose_format("<think>", "", "pythonic")->reasoning_name(), "qwen3");
}

TEST(OutputParserTest, the_prompt_says_where_a_reply_starts) {
  const auto qwen = *choose_format("", "qwen3", "none"), r1 = *choose_format("", "deepseek_r1", "none"),
             harmony = *choose_format("", "openai_gptoss", "");
  EXPECT_TRUE(reply_start(qwen, "<user>x<bot><think>\n", {}, std::nullopt).reasoning);
  EXPECT_FALSE(reply_start(qwen, "write <think> first<bot>", {}, std::nullopt).reasoning);
  EXPECT_FALSE(reply_start(qwen, "<user>x <think>", {{6, 15}}, std::nullopt).reasoning);  // typed by the user
  EXPECT_TRUE(reply_start(qwen, "<bot><think>\n\n</think>\n\n", {}, std::nullopt).closed);
  EXPECT_TRUE(reply_start(r1, "<bot>", {}, std::nullopt).reasoning);
  EXPECT_FALSE(reply_start(r1, "<bot><think></think>", {}, std::nullopt).reasoning);
  EXPECT_TRUE(reply_start(qwen, "<bot><think>so far", {{5, 18}}, "<think>so far").reasoning);
  EXPECT_FALSE(reply_start(qwen, "<bot><think>a</think>b", {{5, 22}}, "<think>a</think>b").reasoning);
  EXPECT_EQ(reply_start(harmony, "<|start|>user<|message|>x<|end|><|start|>assistant", {}, std::nullopt).header,
            "<|start|>assistant");
  EXPECT_TRUE(reply_start(harmony, "<|start|>assistant<|channel|>final<|message|>so", {}, "so").in_message);
}

TEST(OutputParserTest, any_two_parsers_go_together) {
  const auto reasoning = reasoning_parsers(), tools = tool_parsers();
  EXPECT_GT(reasoning.size(), 20u);
  EXPECT_GT(tools.size(), 35u);
  for (const auto& r : reasoning) {
    for (const auto& t : tools) {
      const auto format = choose_format("", r, t);
      ASSERT_TRUE(format) << format.error().message;
      const auto parsed = parse(syntax_of(*format), {"Hello, ", "<b>world</b>."});
      EXPECT_EQ(parsed.reasoning + parsed.content, "Hello, <b>world</b>.") << r << " " << t;
    }
  }
}

// Markers, halves of markers, calls and words in any order.
std::string mixture(const OutputFormat& format, std::mt19937& random, std::vector<std::string>& words) {
  std::vector<std::string> pieces = format.markers();
  const std::size_t markers = pieces.size();
  for (std::size_t i = 0; i < markers; ++i) {
    pieces.push_back(pieces[i].substr(0, 1 + random() % pieces[i].size()));
    if (static_cast<unsigned char>(pieces.back().back()) >= 0x80) pieces.pop_back();
  }
  pieces.insert(pieces.end(), {"{\"name\": \"ping\", \"arguments\": {\"a\": [1]}}",
                               "{\"name\": \"ping\"",
                               "{\"arguments\": {}, \"name\": \"f\"}",
                               "[",
                               "]",
                               "{",
                               "}",
                               ",",
                               ";",
                               "ping(a=1)",
                               "(",
                               ")",
                               "\n",
                               " ",
                               "\n\n",
                               "functions.ping:0",
                               ">",
                               "\"ping\">",
                               "call:ping{",
                               "```json",
                               "```",
                               "function"});
  std::string out;
  for (int i = 1 + static_cast<int>(random() % 30); i > 0; --i) {
    if (random() % 3 != 0) {
      out += pieces[random() % pieces.size()];
      continue;
    }
    words.push_back("w" + std::to_string(words.size()) + "w");
    out += words.back();
  }
  return out;
}

TEST(OutputParserTest, random_mixtures_lose_no_word_however_they_are_cut) {
  std::mt19937 random(7);
  const auto reasoning = reasoning_parsers(), tools = tool_parsers();
  for (int round = 0; round < 4000; ++round) {
    const auto format = choose_format("", reasoning[random() % reasoning.size()], tools[random() % tools.size()]);
    ASSERT_TRUE(format);
    const auto syntax = syntax_of(*format, kTools);
    syntax->start.reasoning = format->reasoning && random() % 2 == 0;
    syntax->whole_calls = random() % 2 == 0;
    std::vector<std::string> words;
    const std::string text = mixture(*format, random, words);
    const Parsed parsed = parse(syntax, {text});
    for (int i = 1; i < 6; ++i)
      ASSERT_EQ(parse(syntax, cut(text, random, static_cast<std::size_t>(4 * i))), parsed)
          << format->reasoning_name() << " " << format->tool_name() << ": " << text;
    if (format->harmony) continue;  // headers are for the parser
    std::string all = parsed.content + "\n" + parsed.reasoning;
    for (const auto& call : parsed.calls) all += "\n" + call.name + "\n" + call.id + "\n" + call.arguments;
    for (const auto& call : parsed.calls) {
      EXPECT_TRUE(!syntax->whole_calls || Json::accept(call.arguments)) << call.arguments << " of " << text;
    }
    for (const auto& word : words) {
      EXPECT_NE(all.find(word), std::string::npos)
          << word << " is lost from " << text << " with " << format->reasoning_name() << " " << format->tool_name()
          << "\ngives " << parsed;
    }
  }
}

TEST(OutputParserTest, without_tools_calls_are_text) {
  for (const auto& example : examples()) {
    auto format = choose_format("", "none", example.tools);
    auto syntax = syntax_of(*format);
    syntax->calls = false;
    if (format->harmony) continue;
    EXPECT_EQ(parse(syntax, {example.text}).content, example.text);
  }
}

TEST(OutputParserTest, hidden_tokens_are_markers_or_nothing) {
  const auto syntax = syntax_of(*choose_format("", "cohere_command3", "cohere_command3"), kTools);
  OutputParser parser(syntax);
  Delta whole;
  for (const std::string_view piece : {"<|START_RESPONSE|>", "An <|END_ACTION|>", "<|END_ACTION|>", "swer",
                                       "<|END_RESPONSE|>", "<|START_ACTION|>", "oops"})
    parser.feed(piece, piece.starts_with('<'), whole);
  parser.finish(whole);
  EXPECT_EQ(whole.content, "An <|END_ACTION|>sweroops");
  EXPECT_TRUE(whole.calls.empty());
}

TEST(OutputParserTest, a_word_for_a_marker_in_an_answer_stays_text) {
  const auto syntax = syntax_of(*choose_format("", "qwen3", "none"));
  EXPECT_EQ(parse(syntax, {"<think>a</think>\n\nModels write <think> and </think> around it."}),
            (Parsed{"Models write <think> and </think> around it.", "a", {}}));
}

TEST(OutputParserTest, long_hostile_replies_take_linear_time) {
  for (const std::string tools : {"hermes", "llama3_json", "pythonic", "deepseek_v3", "kimi_k2", "mistral",
                                  "qwen3_coder", "glm45", "gemma4", "xlam", "minimax_m2"}) {
    const auto format = choose_format("", "qwen3", tools);
    ASSERT_TRUE(format);
    std::vector<std::string> units = format->markers();
    units.insert(units.end(), {"{\"", "[", "{\"a\":", "<", "\n", "{\"name\": \"f\", \"arguments\": {\"a\": \"\\\""});
    for (const auto& unit : units) {
      std::string text;
      while (text.size() < 50'000) text += unit;
      const Parsed parsed = parse(syntax_of(*format), {text});
      EXPECT_LE(parsed.content.size(), text.size());
    }
  }
}

std::vector<Example> examples() {
  const std::string hermes =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + kArguments + "}\n</tool_call>";
  const std::string hermes_ping = "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>";
  const std::string coder =
      "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
      "<parameter=opts>\n{\"a\": [1, true, null]}\n</parameter>\n</function>";
  const std::string list = "[{\"name\": \"get_weather\", \"arguments\": " + kArguments +
                           "}, {\"name\": \"ping\", "
                           "\"arguments\": {}}]";
  const std::string args = kArguments;
  std::vector<Example> all = {
      {"qwen3", "none", "<think>\nThink.\n</think>\n\nAnswer.\n", {"Answer.\n", "Think.", {}}},
      {"qwen3", "none", "Think.\n</think>\n\nAnswer.", {"Answer.", "Think.", {}}, true},
      {"qwen3", "none", "\n<think>\nThink.\n</think>\nA", {"A", "Think.", {}}, true},
      {"qwen3", "none", "<think>\n\n</think>\n\nAnswer.", {"Answer.", "", {}}},
      {"qwen3", "none", " Just an answer. ", {" Just an answer. ", "", {}}},
      {"qwen3", "none", "<think>never\nended\n", {"", "never\nended\n", {}}},
      {"qwen3", "none", "<thin", {"<thin", "", {}}},
      {"mistral", "none", "[THINK]Hm.[/THINK]So.", {"So.", "Hm.", {}}},
      {"seed_oss", "none", "<seed:think>Hm.</seed:think>So.", {"So.", "Hm.", {}}},
      {"gemma4", "none", "<|channel>thought\nHm.\n<channel|>So.", {"So.", "Hm.", {}}},
      {"cohere_command3",
       "none",
       "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>So.<|END_RESPONSE|>",
       {"So.", "Hm.", {}}},
      {"granite", "none", "<think>Hm.</think><response>So.</response>", {"So.", "Hm.", {}}},
      {"granite", "none", "Here is my thought process: Hm.\n\nHere is my response:\n\nSo.", {"So.", "Hm.", {}}},
      {"hunyuan_a13b", "none", "<think>\nHm.\n</think>\n<answer>\nSo.\n</answer>", {"So.", "Hm.", {}}},
      {"kimi_k2", "none", "◁think▷Hm.◁/think▷So.", {"So.", "Hm.", {}}},
      {"qwen3", "hermes", "<think>\nThink.\n</think>\n\nSure.\n" + hermes, {"Sure.", "Think.", {kWeather}}},
      {"none", "hermes", hermes + "\n" + hermes_ping, {"", "", {kWeather, kPing}}},
      {"none",
       "hermes",
       "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>.",
       {".", "", {{"f", "{\"a\": 1}"}}}},
      {"none",
       "hermes",
       "<tool_call>{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
       "\"{\\\"a\\\": 1}\"}}</tool_call>",
       {"", "", {{"f", "{\"a\": 1}"}}}},
      {"none",
       "hermes",
       "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"1\n2\"}}",
       {"", "", {{"f", "{\"a\": \"1\\n2\"}"}}}},
      {"none", "hermes", "The <tool_call> tag.", {"The <tool_call> tag.", "", {}}},
      {"none",
       "hermes",
       "<tool_call>\n{'name': 'f'}\n</tool_call>",
       {"<tool_call>\n{'name': 'f'}\n</tool_call>", "", {}}},
      {"none", "hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", {"", "", {{"f", "{\"a\": "}}}},
      {"none", "hermes", "<tool_call>{\"name\": \"f", {"<tool_call>{\"name\": \"f", "", {}}},
      {"none",
       "hermes",
       "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1 oops}}</tool_call>",
       {"oops}}</tool_call>", "", {{"f", "{\"a\": 1 "}}}},
      {"none", "llama3_json", "{\"name\": \"get_weather\", \"parameters\": " + args + "}", {"", "", {kWeather}}},
      {"none",
       "llama3_json",
       "<|python_tag|>{\"name\": \"get_weather\", \"parameters\": " + args +
           "}; {\"name\": \"ping\", \"parameters\": {}}",
       {"", "", {kWeather, kPing}}},
      {"none", "llama3_json", "{\"result\": 5}", {"{\"result\": 5}", "", {}}},
      {"none",
       "llama3_json",
       "[1, 2] are {\"name\": \"x\", \"parameters\": {}}",
       {"[1, 2] are {\"name\": \"x\", \"parameters\": {}}", "", {}}},
      {"none",
       "llama4_pythonic",
       "<|python_start|>[get_weather(city=\"Paris\", days=3, opts={'a': [1, True, None]}), ping()]<|python_end|>",
       {"", "", {kWeather, kPing}}},
      {"none", "llama4_pythonic", "{\"name\": \"get_weather\", \"parameters\": " + args + "}", {"", "", {kWeather}}},
      {"none",
       "pythonic",
       "[get_weather(city='Paris', days=3, opts={'a': [1, True, None]}), ping()]",
       {"", "", {kWeather, kPing}}},
      {"none", "pythonic", "[see](http://x) and [note(s)]", {"[see](http://x) and [note(s)]", "", {}}},
      {"none",
       "pythonic",
       "[f(a='it\\'s', b=\"\", c='''x'y''')]",
       {"", "", {{"f", "{\"a\": \"it's\", \"b\": \"\", \"c\": \"x'y\"}"}}}},
      {"none",
       "lfm2",
       "Hm.<|tool_call_start|>[get_weather(city='Paris', days=3, opts={\"a\": [1, true, null]})]<|tool_call_end|>",
       {"Hm.", "", {kWeather}}},
      {"olmo3",
       "olmo3",
       "Hm.</think><function_calls>\nget_weather(city=\"Paris\", days=3, opts={\"a\": [1, true, "
       "null]})\nping()\n</function_calls>",
       {"", "Hm.", {kWeather, kPing}},
       true},
      {"none", "mistral", "[TOOL_CALLS]" + list, {"", "", {kWeather, kPing}}},
      {"none",
       "mistral",
       "[TOOL_CALLS]get_weather[ARGS]" + args + "[TOOL_CALLS]ping[ARGS]{}",
       {"", "", {kWeather, kPing}}},
      {"none",
       "mistral",
       "Hi[TOOL_CALLS]get_weather[CALL_ID]abcdef123[ARGS]" + args,
       {"Hi", "", {{"get_weather", args, "abcdef123"}}}},
      {"none", "mistral", "[TOOL_CALLS]ping{}", {"", "", {kPing}}},
      {"deepseek_r1",
       "deepseek_v3",
       "Hm.\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" +
           args +
           "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n{}\n```<"
           "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"", "Hm.", {kWeather, kPing}},
       true},
      {"none",
       "deepseek_v31",
       "OK<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + args +
           "<｜tool▁call▁end｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"OK", "", {kWeather, kPing}}},
      {"none",
       "deepseek_v32",
       "OK\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
       "string=\"true\">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
       "string=\"false\">3</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"opts\" string=\"false\">{\"a\": [1, true, "
       "null]}</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
       "<｜DSML｜invoke name=\"ping\">\n\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       {"OK", "", {kWeather, kPing}}},
      {"kimi_k2",
       "kimi_k2",
       "<think>Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" +
           args +
           "<|tool_call_end|><|tool_call_begin|>functions.ping:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_"
           "calls_section_end|>",
       {"", "Hm.", {{"get_weather", args, "functions.get_weather:0"}, {"ping", "{}", "functions.ping:1"}}}},
      {"none",
       "qwen3_coder",
       "OK\n\n<tool_call>\n" + coder + "\n</tool_call>\n<tool_call>\n<function=ping>\n</function>\n</tool_call>",
       {"OK", "", {kWeather, kPing}}},
      {"none", "qwen3_coder", coder + "\n</tool_call>", {"", "", {kWeather}}},
      {"none",
       "qwen3_coder",
       "<tool_call>\n<function=f>\n<parameter=x>\nif a < b:\n  pass\n\n</parameter>\n</function>\n</tool_call>",
       {"", "", {{"f", "{\"x\": \"if a < b:\\n  pass\\n\"}"}}}},
      {"none",
       "qwen3_coder",
       "<tool_call>\n<function=get_weather>\n<parameter=exact>\nTrue\n</parameter>\n<parameter=days>\nmany\n</"
       "parameter>\n</function>\n</tool_call>",
       {"", "", {{"get_weather", "{\"exact\": true, \"days\": \"many\"}"}}}},
      {"seed_oss",
       "seed_oss",
       "<seed:think>Hm.</seed:think>\nOK\n\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</"
       "parameter>\n"
       "<parameter=days>3</parameter>\n<parameter=opts>{'a': [1, True, "
       "None]}</parameter>\n</function>\n</seed:tool_call>",
       {"OK", "Hm.", {kWeather}}},
      {"glm45",
       "glm45",
       "<think>Hm.</think>\nOK\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</"
       "arg_value>\n<arg_key>days"
       "</arg_key>\n<arg_value>3</arg_value>\n<arg_key>opts</arg_key>\n<arg_value>{\"a\": [1, true, "
       "null]}</arg_value>\n"
       "</tool_call>\n<tool_call>ping\n</tool_call>",
       {"OK", "Hm.", {kWeather, kPing}}},
      {"none", "glm45", "The <tool_call> and </tool_call> tags.", {"The <tool_call> and </tool_call> tags.", "", {}}},
      {"minimax_m2",
       "minimax_m2",
       "Hm.\n</think>\n\nOK\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
       "name=\"city\">Paris</parameter>\n"
       "<parameter name=\"days\">3</parameter>\n<parameter name=\"opts\">{\"a\": [1, true, "
       "null]}</parameter>\n</invoke>\n"
       "<invoke name=\"ping\">\n</invoke>\n</minimax:tool_call>",
       {"OK", "Hm.", {kWeather, kPing}},
       true},
      {"none",
       "minimax",
       "<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": " + args +
           "}\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_calls>",
       {"", "", {kWeather, kPing}}},
      {"none", "jamba", "<tool_calls>" + list + "</tool_calls>", {"", "", {kWeather, kPing}}},
      {"none", "nemotron_json", "<TOOLCALL>" + list + "</TOOLCALL>", {"", "", {kWeather, kPing}}},
      {"none",
       "minicpm5",
       "<function name=\"get_weather\"><param name=\"city\"><![CDATA[Paris]]></param><param name=\"days\">3</param>"
       "<param name=\"opts\">{'a': [1, True, None]}</param></function>\n<function name=\"ping\"></function>",
       {"", "", {kWeather, kPing}}},
      {"none", "granite", "<|tool_call|>" + list, {"", "", {kWeather, kPing}}},
      {"none", "granite-20b-fc", "<function_call> {\"name\": \"ping\", \"arguments\": {}}", {"", "", {kPing}}},
      {"none", "phi4_mini_json", "functools" + list, {"", "", {kWeather, kPing}}},
      {"none", "phi4_mini_json", "<|tool_call|>" + list + "<|/tool_call|>", {"", "", {kWeather, kPing}}},
      {"none", "granite", "<|tool_call|>" + list + "<|/tool_call|>", {"", "", {kWeather, kPing}}},
      {"none", "glm4", "get_weather\n" + kArguments, {"", "", {kWeather}}},
      {"none", "glm4", "\nping\n{}", {"", "", {kPing}}},
      {"none", "glm4", "ping is a tool.", {"ping is a tool.", "", {}}},
      {"none", "glm4", "ping\nis a tool.", {"ping\nis a tool.", "", {}}},
      {"none", "glm4", "It is\nping\n{}", {"It is\nping\n{}", "", {}}},
      {"none", "glm4", "other\n{}", {"other\n{}", "", {}}},
      {"none",
       "internlm",
       "OK<|action_start|><|plugin|>\n{\"name\": \"get_weather\", \"parameters\": " + args + "}<|action_end|>",
       {"OK", "", {kWeather}}},
      {"none", "xlam", "```json\n" + list + "\n```", {"", "", {kWeather, kPing}}},
      {"none", "xlam", list, {"", "", {kWeather, kPing}}},
      {"cohere_command3",
       "cohere_command3",
       "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
       "\"get_weather\", \"parameters\": " +
           args + "}\n]<|END_ACTION|>",
       {"", "Hm.", {{"get_weather", args, "0"}}}},
      {"none",
       "command_r",
       "Action: ```json\n[\n    {\n        \"tool_name\": \"ping\",\n        \"parameters\": {}\n    }\n]\n```",
       {"", "", {kPing}}},
      {"none",
       "gigachat3",
       "OK<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", \"arguments\": " + args + "}",
       {"OK", "", {kWeather}}},
      {"none",
       "apertus",
       "OK<|tools_prefix|>[{\"get_weather\": " + args + "}, {\"ping\": {}}]<|tools_suffix|>",
       {"OK", "", {kWeather, kPing}}},
      {"none",
       "functionary",
       "OK<function=get_weather>" + args + "</function><function=ping>{}</function>",
       {"OK", "", {kWeather, kPing}}},
      {"gemma4",
       "gemma4",
       "<|channel>thought\nHm.\n<channel|><|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>,days:3,opts:{a:[1,true,"
       "None]}}"
       "<tool_call|><|tool_call>call:ping{}<tool_call|>OK",
       {"OK", "Hm.", {kWeather, kPing}}},
      {"none",
       "functiongemma",
       "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3,opts:{a:[1,true,null]}}<end_function_"
       "call>",
       {"", "", {kWeather}}},
      {"none",
       "longcat",
       "<longcat_tool_call>{\"name\": \"ping\", \"arguments\": {}}</longcat_tool_call>",
       {"", "", {kPing}}},
      {"none", "json", "{\"name\": \"get_weather\", \"arguments\": " + args + "}", {"", "", {kWeather}}},
      {"openai_gptoss",
       "openai",
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>So.",
       {"So.", "Hm.", {}}},
      {"openai_gptoss",
       "openai",
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Wait.<|end|><|start|>"
       "assistant"
       "<|channel|>analysis<|message|>Hm!<|end|>"
       "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" +
           args + "<|call|><|start|>assistant to=functions.ping<|channel|>commentary json<|message|>{}<|call|>",
       {"Wait.", "Hm.\nHm!", {kWeather, kPing}}},
      {"openai_gptoss",
       "openai",
       "<|channel|>commentary to=get_weather <|constrain|>json<|message|>" + args + "<|call|>",
       {"", "", {kWeather}}},
      {"openai_gptoss", "openai", "<|channel|>final<|message|>Say <|eom|>.", {"Say <|eom|>.", "", {}}},
      {"muse_glimmer",
       "muse_glimmer",
       " to=self<|message|>Hm.<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>\n"
       "<atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\">Paris</atem:parameter>\n"
       "<atem:parameter name=\"days\">3</atem:parameter>\n<atem:parameter name=\"opts\">{\"a\": [1, true, "
       "null]}</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=ping<|message|>"
       "<atem:function_calls>\n<atem:invoke name=\"ping\">\n</atem:invoke>\n</atem:function_calls><|eot|>",
       {"", "Hm.", {kWeather, kPing}}},
      {"muse_glimmer",
       "muse_glimmer",
       " to=user<|message|>So <atem:function_calls>.<|eot|>",
       {"So <atem:function_calls>.", "", {}}},
      {"solar_open",
       "solar_open",
       "<|think|>Hm.<|end|><|begin|>assistant<|content|>OK<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>"
       "a1b2c3d4e5<|tool_call:name|>get_weather<|tool_call:args|>" +
           args + "<|tool_call:end|><|tool_call:begin|>f6g7h8i9j0<|tool_call:name|>ping<|tool_call:args|>{}" +
           "<|tool_call:end|><|calls|>",
       {"OK", "Hm.", {{"get_weather", args, "a1b2c3d4e5"}, {"ping", "{}", "f6g7h8i9j0"}}}},
      {"kimi_k3",
       "kimi_k3",
       "Hm.<|close|>think<|sep|><|open|>response<|sep|>OK<|close|>response<|sep|><|open|>tools<|sep|><|open|>call "
       "tool=\"get_weather\" index=\"1\"<|sep|><|open|>argument key=\"city\" "
       "type=\"string\"<|sep|>Paris<|close|>argument<"
       "|sep|><|open|>argument key=\"days\" type=\"number\"<|sep|>3<|close|>argument<|sep|><|open|>argument "
       "key=\"opts\" "
       "type=\"object\"<|sep|>{\"a\": [1, true, null]}<|close|>argument<|sep|><|close|>call<|sep|><|open|>call "
       "tool=\"ping\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
       {"OK", "Hm.", {kWeather, kPing}},
       true},
      {"none",
       "kimi_k3",
       "<|open|>tools<|sep|><|open|>call tool=\"get_weather\" index=\"1\"<|sep|><|open|>json type=\"object\"<|sep|>" +
           args + "<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
       {"", "", {kWeather}}},
      {"none",
       "kimi_k3",
       "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a &amp;&quot;\" "
       "type=\"string\"<|sep|>\n1\n<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
       {"", "", {{"f", "{\"a &\\\"\": \"\\n1\\n\"}"}}}},
      {"minimax_m3",
       "minimax_m3",
       "<mm:think>Hm.</mm:think>OK]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
       "name=\"get_weather\">]<]minimax[>[<city>"
       "Paris]<]minimax[>[</city>]<]minimax[>[<days>3]<]minimax[>[</"
       "days>]<]minimax[>[<opts>]<]minimax[>[<a>]<]minimax[>[<"
       "item>1]<]minimax[>[</item>]<]minimax[>[<item>true]<]minimax[>[</item>]<]minimax[>[<item>null]<]minimax[>[</"
       "item>]<]"
       "minimax[>[</a>]<]minimax[>[</opts>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name=\"ping\">]<]minimax[>[</"
       "invoke>\n]<]minimax[>[</tool_call>",
       {"OK", "Hm.", {kWeather, kPing}}},
      {"minimax_m3", "none", "</mm:think>OK", {"OK", "", {}}},
      {"qwen3", "none", "\n</think>\n\nOK </think>", {"OK </think>", "", {}}},
      {"granite", "none", "Here is my response: no.", {"Here is my response: no.", "", {}}},
      {"hy_v3",
       "hy_v3",
       "Hm.</"
       "think:opensource>OK<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:"
       "opensource>city</arg_key:opensource>\n<arg_value:opensource>Paris</"
       "arg_value:opensource>\n<arg_key:opensource>days"
       "</arg_key:opensource>\n<arg_value:opensource>3</arg_value:opensource>\n<arg_key:opensource>opts</arg_key:"
       "opensource>\n<arg_value:opensource>{\"a\": [1, true, null]}</arg_value:opensource>\n</tool_call:opensource>\n"
       "<tool_call:opensource>ping<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
       {"OK", "Hm.", {kWeather, kPing}},
       true},
      {"none", "hy_v3", "<tool_calls>\n<tool_call>ping<tool_sep>\n</tool_call>\n</tool_calls>", {"", "", {kPing}}},
      {"none", "gigachat3", "OK<|function_call|>{\"name\": \"ping\", \"arguments\": {}}", {"OK", "", {kPing}}},
      {"functionary_v3.2",
       "functionary_v3.2",
       "all\nOK>>>get_weather\n" + args + ">>>ping\n{}",
       {"OK", "", {kWeather, kPing}}},
      {"none", "functionary_v3.2", "ping\n{}>>>all\nOK, 1 >>> 0.", {"OK, 1 >>> 0.", "", {kPing}}},
      {"qwen3",
       "qwen3_coder",
       "The <tool_call> tag begins with\n<tool_call>\n<function=ping>\n</function>\n</tool_call>",
       {"", "The <tool_call> tag begins with", {kPing}},
       true},
      {"qwen3",
       "hermes",
       "A draft:\n" + hermes_ping + "\n</think>\nSo.",
       {"So.", "A draft:\n" + hermes_ping, {}},
       true},
      {"deepseek_v4",
       "deepseek_v4",
       "Hm.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"ping\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
       {"", "Hm.", {kPing}},
       true},
      {"kimi_k2",
       "kimi_k2",
       "<think>Hm.<|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}<|tool_call_begin|>functions.ping:1<"
       "|tool_"
       "call_argument_begin|>{}",
       {"", "Hm.", {{"ping", "{}", "functions.ping:0"}, {"ping", "{}", "functions.ping:1"}}}},
      {"gemma4", "gemma4", "<|channel>thought<channel|>So.", {"So.", "", {}}},
      {"none",
       "command_r",
       "Action:\n```json\n[{\"tool_name\": \"ping\", \"parameters\": {}}]\n```",
       {"", "", {kPing}}},
      {"openai_gptoss",
       "openai",
       "<|channel|>commentary to=assistant<|channel|>final<|message|>So.<|return|>",
       {"So.", "", {}}},
      {"none",
       "step3",
       "OK<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
       "name=\"get_weather\"><steptml:"
       "parameter name=\"city\">Paris</steptml:parameter><steptml:parameter "
       "name=\"days\">3</steptml:parameter><steptml:"
       "parameter name=\"opts\">{\"a\": [1, true, "
       "null]}</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_call_"
       "begin｜>function<｜tool_sep｜><steptml:invoke "
       "name=\"ping\"></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
       {"OK", "", {kWeather, kPing}}},
      {"none",
       "deepseek_v32",
       "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"x\" "
       "string=\"true\">\n1\n\n</｜DSML｜"
       "parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       {"", "", {{"f", "{\"x\": \"\\n1\\n\\n\"}"}}}},
      {"none",
       "glm47",
       "<tool_call>get_weather<arg_key>city</arg_key><arg_value>\nParis\n</arg_value></tool_call>",
       {"", "", {{"get_weather", "{\"city\": \"\\nParis\\n\"}"}}}},
      {"openai_gptoss", "openai", "No channel at all.", {"No channel at all.", "", {}}},
      {"openai_gptoss", "openai", "<|channel|>commentary to=functions.f<|message|>oops<|call|>", {"oops", "", {}}},
  };
  return all;
}

}  // namespace
}  // namespace weir::text::parse
