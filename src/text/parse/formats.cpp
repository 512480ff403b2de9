#include "text/parse/formats.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "text/parse/harmony.h"

namespace weir::text::parse {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// --- Reasoning

const std::vector<std::string> kThink = {"<think>"}, kThinkEnd = {"</think>"};

ReasoningNotation think(std::string name, bool assumed = false) {
  return {std::move(name), kThink, kThinkEnd, {}, {}, assumed};
}

// vLLM's names first among those with the same markers. "": no parser of vLLM has it.
const std::vector<ReasoningNotation>& reasoning_notations() {
  static const std::vector<ReasoningNotation> all = {
      think("qwen3"),
      think("deepseek_r1", true),
      think("deepseek_v3"),
      think("deepseek_v31"),
      think("deepseek_v4"),
      think("glm45"),
      think("glm47"),
      think("holo2"),
      think("mimo"),
      think("minimax_m2", true),
      think("nemotron_v3"),
      think("olmo3", true),
      think("poolside_v1"),
      think("step3", true),
      think("step3p5"),
      think("exaone4"),
      {"kimi_k2", {"<think>", "◁think▷"}, {"</think>", "◁/think▷"}, {}, {}, false},
      {"hunyuan_a13b", kThink, kThinkEnd, {"<answer>"}, {"</answer>"}, false},
      {"ernie45", kThink, kThinkEnd, {"<response>"}, {"</response>"}, false},
      {"granite",
       {"<think>", "Here is my thought process:", "Here's my thought process:"},
       {"</think>", "Here is my response:", "Here's my response:"},
       {"<response>"},
       {"</response>"},
       false},
      {"mistral", {"[THINK]"}, {"[/THINK]"}, {}, {}, false},
      {"seed_oss", {"<seed:think>"}, {"</seed:think>"}, {}, {}, false},
      {"gemma4", {"<|channel>thought"}, {"<channel|>"}, {}, {}, false},
      {"cohere_command3",
       {"<|START_THINKING|>"},
       {"<|END_THINKING|>"},
       {"<|START_RESPONSE|>", "<|START_TEXT|>"},
       {"<|END_RESPONSE|>", "<|END_TEXT|>"},
       false},
      {"cohere_command4",
       {"<|START_THINKING|>"},
       {"<|END_THINKING|>"},
       {"<|START_RESPONSE|>", "<|START_TEXT|>"},
       {"<|END_RESPONSE|>", "<|END_TEXT|>"},
       false},
      {"apertus", {"<|inner_prefix|>"}, {"<|inner_suffix|>"}, {}, {}, false},
      {"hy_v3", {"<think>", "<think:opensource>"}, {"</think>", "</think:opensource>"}, {}, {}, false},
      {"minimax_m3", {"<mm:think>"}, {"</mm:think>"}, {}, {}, false},
      {"kimi_k3",
       {"<|open|>think<|sep|>"},
       {"<|close|>think<|sep|>"},
       {"<|open|>response<|sep|>"},
       {"<|close|>response<|sep|>", "<|close|>message<|sep|>"},
       false},
      {"solar_open",
       {"<|begin|>assistant<|think|>", "<|think|>"},
       {"<|end|>"},
       {"<|begin|>assistant<|content|>", "<|content|>"},
       {"<|end|>"},
       false},
      {"functionary_v3.2", {}, {}, {"all\n"}, {}, false},
      {"apriel", {"Here are my reasoning steps:"}, {"[BEGIN FINAL RESPONSE]"}, {}, {"[END FINAL RESPONSE]"}, false},
  };
  return all;
}

const ReasoningNotation* find_reasoning(std::string_view name) {
  const auto& all = reasoning_notations();
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  return it == all.end() ? nullptr : &*it;
}

// Texts of a template, all of which must be there -> notation. The first row that fits wins, so the more telling come
// before those that stand in other templates too.
struct Row {
  std::array<std::string_view, 2> texts;
  std::string_view name;
};

template <class Rows>
std::string_view first_fit(const Rows& rows, std::string_view chat_template) {
  for (const Row& row : rows)
    if (has(chat_template, row.texts[0]) && has(chat_template, row.texts[1])) return row.name;
  return {};
}

constexpr std::array kReasoningRows = {
    Row{{"<mm:think>", ""}, "minimax_m3"},
    Row{{"<|open|>", "open_tag('think')"}, "kimi_k3"},
    Row{{"<|begin|>assistant<|think|>", ""}, "solar_open"},
    Row{{"<think{}>", ""}, "hy_v3"},
    Row{{"<think:opensource>", ""}, "hy_v3"},
    Row{{">>>all", ">>>${recipient}"}, "functionary_v3.2"},
    Row{{"<|channel>thought", ""}, "gemma4"},
    Row{{"<|channel>", "<channel|>"}, "gemma4"},
    Row{{"<seed:think>", ""}, "seed_oss"},
    Row{{"[THINK]", ""}, "mistral"},
    Row{{"<|START_THINKING|>", ""}, "cohere_command3"},
    Row{{"<|START_RESPONSE|>", ""}, "cohere_command3"},
    Row{{"<|inner_prefix|>", ""}, "apertus"},
    Row{{"[BEGIN FINAL RESPONSE]", ""}, "apriel"},
    Row{{"Here is my thought process:", ""}, "granite"},
    Row{{"<response>", "<|start_of_role|>"}, "granite"},
    Row{{"<response>", "<|im_start|>"}, "ernie45"},
    Row{{"◁think▷", ""}, "kimi_k2"},
    Row{{"<answer>", "</think>"}, "hunyuan_a13b"},
    Row{{"<think>", ""}, "qwen3"},
    Row{{"</think>", ""}, "qwen3"},
};

// --- Tool calls

NotationPtr json(std::vector<std::string> opens, std::vector<std::string> closes) {
  return make_notation(JsonNotation{.opens = std::move(opens), .closes = std::move(closes)});
}

NotationPtr qwen_tags(std::string open, std::string close) {
  return make_notation(TagNotation{.section_opens = {std::move(open)},
                                   .section_closes = {std::move(close)},
                                   .call_open = "<function=",
                                   .name_end = ">",
                                   .call_close = "</function>",
                                   .key_open = "<parameter=",
                                   .key_end = ">",
                                   .value_close = "</parameter>",
                                   .bare_calls = true});
}

NotationPtr invoke_tags(std::vector<std::string> opens, std::vector<std::string> closes, const std::string& prefix) {
  return make_notation(TagNotation{.section_opens = std::move(opens),
                                   .section_closes = std::move(closes),
                                   .call_open = "<" + prefix + "invoke name=",
                                   .name_end = ">",
                                   .call_close = "</" + prefix + "invoke>",
                                   .key_open = "<" + prefix + "parameter name=",
                                   .key_end = ">",
                                   .value_close = "</" + prefix + "parameter>",
                                   .own_lines = prefix.empty()});
}

// <|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>...
NotationPtr kimi_tags() {
  return make_notation(TagNotation{.section_opens = {"<|open|>tools<|sep|>"},
                                   .section_closes = {"<|close|>tools<|sep|>"},
                                   .call_open = "<|open|>call ",
                                   .name_end = "<|sep|>",
                                   .call_close = "<|close|>call<|sep|>",
                                   .key_open = "<|open|>argument ",
                                   .key_end = "<|sep|>",
                                   .value_close = "<|close|>argument<|sep|>",
                                   .attributes = true,
                                   .own_lines = false,
                                   .object_open = "<|open|>json type=\"object\"<|sep|>",
                                   .object_close = "<|close|>json<|sep|>"});
}

struct NamedNotation {
  std::string_view name;
  NotationPtr notation;
};

// By vLLM's names where it has one.
const std::vector<NamedNotation>& tool_notations() {
  static const std::vector<NamedNotation> all = [] {
    const auto hermes = json({"<tool_call>"}, {"</tool_call>"});
    const auto lists = json({"<tool_calls>"}, {"</tool_calls>"});
    const auto llama3 = make_notation(
        JsonNotation{.opens = {"<|python_tag|>"}, .closes = {}, .form = JsonCall::kNamedFull, .bare = true});
    const auto llama4 = make_notation(JsonNotation{.opens = {"<|python_start|>", "<|python_end|>"},
                                                   .closes = {"<|python_end|>"},
                                                   .form = JsonCall::kNamedFull,
                                                   .bare = true,
                                                   .python = true});
    const auto coder = qwen_tags("<tool_call>", "</tool_call>");
    const auto glm = glm_notation();
    const auto deepseek = deepseek_notation();
    const auto dsml = invoke_tags({"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"},
                                  {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"}, "｜DSML｜");
    const auto granite = json({"<|tool_call|>", "<tool_call>"}, {"</tool_call>", "<|/tool_call|>"});
    const auto cohere = json({"<|START_ACTION|>"}, {"<|END_ACTION|>"});
    return std::vector<NamedNotation>{
        {"hermes", hermes},
        {"qwen3", hermes},
        {"ernie45", hermes},
        {"granite4", hermes},
        {"longcat", json({"<longcat_tool_call>"}, {"</longcat_tool_call>"})},
        {"llama3_json", llama3},
        {"llama4_json", llama4},
        {"llama4_pythonic", llama4},
        {"pythonic", make_notation(PythonNotation{.opens = {}, .closes = {}, .bare = true})},
        {"lfm2", make_notation(
                     JsonNotation{.opens = {"<|tool_call_start|>"}, .closes = {"<|tool_call_end|>"}, .python = true})},
        {"olmo3", make_notation(PythonNotation{.opens = {"<function_calls>"}, .closes = {"</function_calls>"}})},
        {"mistral", mistral_notation()},
        {"deepseek_v3", deepseek},
        {"deepseek_v31", deepseek},
        {"deepseek_v32", dsml},
        {"deepseek_v4", dsml},
        {"glm45", glm},
        {"glm47", glm},
        {"poolside_v1", glm},
        {"kimi_k2", kimi_notation()},
        {"kimi_k3", kimi_tags()},
        {"hy_v3", hunyuan_notation()},
        {"minimax_m3", element_notation()},
        {"solar_open", solar_notation()},
        {"functionary_v3.2", recipient_notation()},
        {"step3",
         make_notation(TagNotation{.section_opens = {"<｜tool_calls_begin｜>"},
                                   .section_closes = {"<｜tool_calls_end｜>"},
                                   .call_open = "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=",
                                   .name_end = ">",
                                   .call_close = "</steptml:invoke><｜tool_call_end｜>",
                                   .key_open = "<steptml:parameter name=",
                                   .key_end = ">",
                                   .value_close = "</steptml:parameter>"})},
        {"qwen3_coder", coder},
        {"qwen3_xml", coder},
        {"mimo", coder},
        {"step3p5", coder},
        {"seed_oss", qwen_tags("<seed:tool_call>", "</seed:tool_call>")},
        {"minimax_m2", invoke_tags({"<minimax:tool_call>"}, {"</minimax:tool_call>"}, "")},
        {"muse_glimmer", invoke_tags({"<atem:function_calls>"}, {"</atem:function_calls>"}, "atem:")},
        {"minimax", lists},
        {"jamba", lists},
        {"hunyuan_a13b", lists},
        {"apriel", lists},
        {"nemotron_json", json({"<TOOLCALL>"}, {"</TOOLCALL>"})},
        {"minicpm5", make_notation(TagNotation{.call_open = "<function name=",
                                               .name_end = ">",
                                               .call_close = "</function>",
                                               .key_open = "<param name=",
                                               .key_end = ">",
                                               .value_close = "</param>"})},
        {"granite", granite},
        {"granite-20b-fc", json({"<function_call>"}, {})},
        {"phi4_mini_json", json({"functools", "<|tool_call|>"}, {"<|/tool_call|>"})},
        {"glm4", first_line_notation()},
        {"internlm", json({"<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"}, {"<|action_end|>"})},
        {"xlam", make_notation(JsonNotation{.opens = {"<tool_call>", "[TOOL_CALLS]", "```json"},
                                            .closes = {"</tool_call>", "```"},
                                            .form = JsonCall::kNamedFull,
                                            .bare = true})},
        {"cohere_command3", cohere},
        {"cohere_command4", cohere},
        {"command_r", make_notation(JsonNotation{.opens = {"Action: ```json", "Action:```json", "Action:\n```json"},
                                                 .closes = {"```"}})},
        {"gigachat3",
         json({"<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>\n", "function call<|role_sep|>\n"},
              {})},
        {"apertus", make_notation(JsonNotation{
                        .opens = {"<|tools_prefix|>"}, .closes = {"<|tools_suffix|>"}, .form = JsonCall::kKeyed})},
        {"functionary", function_tag_notation()},
        {"gemma4", make_notation(BraceNotation{"<|tool_call>", "<tool_call|>", "<|\"|>"})},
        {"functiongemma", make_notation(BraceNotation{"<start_function_call>", "<end_function_call>", "<escape>"})},
        // No notation of its own: a template that lists tools and says no more gets calls as plain JSON.
        {"json",
         make_notation(JsonNotation{
             .opens = {"<tool_call>"}, .closes = {"</tool_call>"}, .form = JsonCall::kNamedFull, .bare = true})},
    };
  }();
  return all;
}

NotationPtr find_tools(std::string_view name) {
  for (const auto& one : tool_notations())
    if (one.name == name) return one.notation;
  return nullptr;
}

constexpr std::array kToolRows = {
    Row{{"]<]minimax[>[", ""}, "minimax_m3"},
    Row{{"<|open|>", "open_tag('tools')"}, "kimi_k3"},
    Row{{"<|tool_call:begin|>", ""}, "solar_open"},
    Row{{"<tool_sep", "<arg_key"}, "hy_v3"},
    Row{{"steptml:", ""}, "step3"},
    Row{{">>>all", ">>>${recipient}"}, "functionary_v3.2"},
    Row{{"｜DSML｜", ""}, "deepseek_v32"},
    Row{{"<｜tool▁calls▁begin｜>", "```json"}, "deepseek_v3"},
    Row{{"<｜tool▁calls▁begin｜>", ""}, "deepseek_v31"},
    Row{{"<|tool_calls_section_begin|>", ""}, "kimi_k2"},
    Row{{"[TOOL_CALLS]", ""}, "mistral"},
    Row{{"<minimax:tool_call>", ""}, "minimax_m2"},
    Row{{"<seed:tool_call>", ""}, "seed_oss"},
    Row{{"<arg_key>", ""}, "glm45"},
    Row{{"<function=", "<parameter="}, "qwen3_coder"},
    Row{{"<function name=", "<param name="}, "minicpm5"},
    Row{{"<start_function_call>", ""}, "functiongemma"},
    Row{{"<|tool_call>", "call:"}, "gemma4"},
    Row{{"<|tools_prefix|>", ""}, "apertus"},
    Row{{"<|tool_call_start|>", ""}, "lfm2"},
    Row{{"<|tool_list_start|>", ""}, "lfm2"},
    Row{{"<|START_ACTION|>", ""}, "cohere_command3"},
    Row{{"<|action_start|>", ""}, "internlm"},
    Row{{"<longcat_tool_call>", ""}, "longcat"},
    Row{{"<function_calls>", ""}, "olmo3"},
    Row{{"<TOOLCALL>", ""}, "nemotron_json"},
    Row{{"<tool_calls>", ""}, "jamba"},
    Row{{"function call", "<|role_sep|>"}, "gigachat3"},
    Row{{"<|function_call|>", "<|role_sep|>"}, "gigachat3"},
    Row{{"<function=", ""}, "functionary"},
    Row{{"<|tool|>", "<|/tool|>"}, "phi4_mini_json"},
    Row{{"<|tool_call|>", ""}, "granite"},
    Row{{"<tool_call>", ""}, "hermes"},
    Row{{"functools", ""}, "phi4_mini_json"},
    Row{{"<|python_start|>", ""}, "llama4_pythonic"},
    Row{{"<|python_tag|>", ""}, "llama3_json"},
    Row{{"Action:", "```json"}, "command_r"},
    Row{{"<function_call>", ""}, "granite-20b-fc"},
    Row{{"[gMASK]", "Json 格式"}, "glm4"},
    Row{{"List of tools: [", ""}, "lfm2"},
    Row{{"tools", "tool_calls"}, "json"},
    Row{{"tools", "function"}, "json"},
};

constexpr std::string_view kMuse = "muse_glimmer";

bool is_harmony(std::string_view text) {
  return has(text, "<|channel|>") && has(text, "<|message|>") && has(text, "<|start|>");
}

bool is_muse(std::string_view text) {
  return has(text, "<|message|>") && has(text, "<atem:function_calls>");
}

void use_tools(OutputFormat& format, std::string_view name) {
  format.tools = find_tools(name);
  format.tools_name = name;
  format.short_ids = name == "mistral";
}

OutputFormat muse_format() {
  OutputFormat format;
  format.harmony = true;
  use_tools(format, kMuse);
  return format;
}

}  // namespace

std::vector<std::string> reasoning_parsers() {
  std::vector<std::string> out = {"none", "openai_gptoss", std::string(kMuse)};
  for (const auto& one : reasoning_notations()) out.push_back(one.name);
  return out;
}

std::vector<std::string> tool_parsers() {
  std::vector<std::string> out = {"none", "openai"};
  for (const auto& one : tool_notations()) out.emplace_back(one.name);
  return out;
}

std::vector<std::string> OutputFormat::markers() const {
  std::vector<std::string> out = harmony ? harmony_markers() : std::vector<std::string>();
  const auto add = [&](const std::vector<std::string>& more) { out.insert(out.end(), more.begin(), more.end()); };
  if (reasoning) {
    add(reasoning->opens);
    add(reasoning->closes);
    add(reasoning->answer_opens);
    add(reasoning->answer_closes);
  }
  if (tools) {
    add(tools->opens());
    add(tools->inner_markers());
  }
  return out;
}

OutputFormat recognise_format(std::string_view chat_template) {
  OutputFormat format;
  if (is_muse(chat_template)) return muse_format();
  format.harmony = is_harmony(chat_template);
  if (format.harmony) return format;
  const auto reasoning = first_fit(kReasoningRows, chat_template), tools = first_fit(kToolRows, chat_template);
  if (!reasoning.empty()) format.reasoning = *find_reasoning(reasoning);
  if (!tools.empty()) use_tools(format, tools);
  return format;
}

Result<OutputFormat> choose_format(std::string_view chat_template, std::string_view reasoning, std::string_view tools) {
  OutputFormat format = recognise_format(chat_template);
  const auto is_auto = [](std::string_view name) { return name.empty() || name == "auto"; };
  if (reasoning == "openai_gptoss" || tools == "openai") {
    OutputFormat harmony;
    harmony.harmony = true;
    return harmony;
  }
  if (reasoning == kMuse || tools == kMuse) return muse_format();
  if (format.harmony && (!is_auto(reasoning) || !is_auto(tools))) format = {};
  if (reasoning == "none" || reasoning == "minimax_m2_append_think") {
    // The second of these names leaves the reasoning in the content, markers and all.
    format.reasoning.reset();
  } else if (!is_auto(reasoning)) {
    const auto* found = find_reasoning(reasoning);
    if (!found) {
      return fail(ErrorCode::kInvalidArgument, "--reasoning-parser '{}' is unknown; known are {}",
                  reasoning.substr(0, 40), fmt::join(reasoning_parsers(), ", "));
    }
    format.reasoning = *found;
  }
  if (tools == "none") {
    format.tools = nullptr;
    format.tools_name.clear();
  } else if (!is_auto(tools)) {
    if (!find_tools(tools)) {
      return fail(ErrorCode::kInvalidArgument, "--tool-call-parser '{}' is unknown; known are {}", tools.substr(0, 40),
                  fmt::join(tool_parsers(), ", "));
    }
    use_tools(format, tools);
  }
  return format;
}

namespace {

// The bytes that the template wrote; what came from the request is blanked out.
std::string template_bytes(std::string_view prompt, const std::vector<ByteRange>& user) {
  std::string out(prompt);
  for (const auto& range : user) {
    for (std::size_t i = range.begin; i < std::min(range.end, out.size()); ++i) out[i] = '\0';
  }
  return out;
}

struct Found {
  std::size_t begin = 0, end = 0;
};

std::optional<Found> find_last(std::string_view text, const std::vector<std::string>& markers) {
  std::optional<Found> last;
  for (const auto& marker : markers) {
    const auto at = text.rfind(marker);
    if (at != std::string_view::npos && (!last || at > last->begin)) last = Found{at, at + marker.size()};
  }
  return last;
}

bool left_open(std::string_view text, const ReasoningNotation& reasoning) {
  const auto open = find_last(text, reasoning.opens), close = find_last(text, reasoning.closes);
  return open && (!close || close->begin < open->begin);
}

}  // namespace

ReplyStart reply_start(const OutputFormat& format, std::string_view prompt, const std::vector<ByteRange>& user,
                       std::optional<std::string_view> continued) {
  ReplyStart start;
  start.continued = continued.has_value();
  const std::string own = template_bytes(prompt, user);
  if (format.harmony) {
    const auto begin = own.rfind("<|start|>");
    if (begin == std::string::npos) return start;
    const std::string_view last = std::string_view(own).substr(begin);
    const auto message = last.find("<|message|>");
    const bool ended = has(last, "<|end|>") || has(last, "<|return|>") || has(last, "<|call|>");
    if (ended) return start;
    start.in_message = message != std::string_view::npos;
    start.header = last.substr(0, message);
    return start;
  }
  if (!format.reasoning) return start;
  if (continued) {
    start.reasoning = left_open(own, *format.reasoning) || left_open(*continued, *format.reasoning);
    return start;
  }
  // Elsewhere than at the very end a marker may be part of instructions.
  std::string_view tail = own;
  const auto last = tail.find_last_not_of(" \t\r\n");
  const auto ends_with = [&](const std::string& marker) {
    const std::string_view text = std::string_view(marker).substr(0, marker.find_last_not_of("\n") + 1);
    return last != std::string_view::npos && tail.substr(0, last + 1).ends_with(text);
  };
  const auto any = [&](const std::vector<std::string>& markers) {
    return std::any_of(markers.begin(), markers.end(), ends_with);
  };
  start.closed = any(format.reasoning->closes);
  start.reasoning = any(format.reasoning->opens) || (format.reasoning->assumed && !start.closed);
  return start;
}

}  // namespace weir::text::parse
