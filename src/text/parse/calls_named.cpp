// Calls whose name stands between tags of its own, before JSON arguments.
//
//   DeepSeek V3, R1  <｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n{...}\n```<｜tool▁call▁end｜>
//   DeepSeek V3.1    <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>
//   Kimi K2          <|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
//   Mistral          [TOOL_CALLS]NAME[ARGS]{...}, with [CALL_ID]id before [ARGS] or not; or a list of JSON calls
//   Llama 3.1, functionary  <function=NAME>{...}</function>
//   Solar Open       <|tool_call:begin|>ID<|tool_call:name|>NAME<|tool_call:args|>{...}<|tool_call:end|>
//   functionary 3.2  >>>NAME\n{...}, and >>>all\n before text; the prompt ends with the first >>>
//   GLM-4            NAME\n{...} at the start of the reply, no marks around
#include "text/parse/sectioned_calls.h"

namespace weir::text::parse {
namespace {

// The text before the one end of a name, which is taken too.
Task<std::optional<std::string>> take_name_and(Source& in, const Markers& end) {
  auto name = co_await take_name(in, end);
  if (name) in.drop(end.texts()[0].size());
  co_return name;
}

// Begins a call if an object follows, and streams it. Leaves what does not look like an object.
Task<bool> call_with_object(Calls& calls, std::string name, std::string id) {
  co_await skip_space(calls.in);
  const bool object = !name.empty() && co_await object_ahead(calls.in);
  if (!object) co_return false;
  calls.begin(std::move(name), std::move(id));
  co_return co_await stream_object(calls);
}

// What ends a call, which models leave out.
Task<bool> take_end(Source& in, std::string_view end) {
  co_await skip_space(in);
  co_await take_text(in, end);
  in.settle();
  co_return true;
}

class DeepSeekCalls final : public SectionedCalls {
 public:
  // Distilled models misspell the opening marker in these ways.
  DeepSeekCalls()
      : SectionedCalls(
            {"<｜tool▁calls▁begin｜>", "<｜tool_calls_begin｜>", "<｜tool calls begin｜>", "<｜tool▁calls｜>"},
            "<｜tool▁call▁begin｜>", {"<｜tool▁calls▁end｜>"}) {}

  std::vector<std::string> inner_markers() const override {
    auto all = SectionedCalls::inner_markers();
    all.insert(all.end(), {std::string(kSeparator), std::string(kEnd)});
    return all;
  }

 protected:
  Task<bool> one(Calls& calls) const override {
    Source& in = calls.in;
    const auto first = co_await take_name_and(in, separator_);
    if (!first) co_return false;
    const bool plain = co_await object_ahead(in);
    if (plain) {
      const bool ok = co_await call_with_object(calls, std::string(trim(*first)), {});
      if (!ok) co_return false;
    } else {
      if (trim(*first) != "function") co_return false;
      const auto name = co_await take_name(in, line_end_);
      if (!name) co_return false;
      co_await skip_space(in);
      const bool fence = co_await take_text(in, "```json");
      const bool ok = fence && co_await call_with_object(calls, std::string(trim(*name)), {});
      if (!ok) co_return false;
      co_await skip_space(in);
      co_await take_text(in, "```");
    }
    co_return co_await take_end(in, kEnd);
  }

 private:
  static constexpr std::string_view kSeparator = "<｜tool▁sep｜>", kEnd = "<｜tool▁call▁end｜>";
  Markers separator_{{std::string(kSeparator)}}, line_end_{{"\n"}};
};

class KimiCalls final : public SectionedCalls {
 public:
  KimiCalls()
      : SectionedCalls({"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"}, "<|tool_call_begin|>",
                       {"<|tool_calls_section_end|>"}, true) {}

  std::vector<std::string> ends_of_reasoning() const override { return opens(); }
  std::vector<std::string> inner_markers() const override {
    auto all = SectionedCalls::inner_markers();
    all.insert(all.end(), {std::string(kArguments), std::string(kEnd)});
    return all;
  }

 protected:
  Task<bool> one(Calls& calls) const override {
    Source& in = calls.in;
    const auto id = co_await take_name_and(in, arguments_);
    if (!id) co_return false;
    const std::string whole(trim(*id));
    std::string name = whole.substr(0, whole.rfind(':'));
    if (name.starts_with("functions.")) name.erase(0, std::string_view("functions.").size());
    const bool ok = co_await call_with_object(calls, name, whole);
    if (!ok) co_return false;
    co_return co_await take_end(in, kEnd);
  }

 private:
  static constexpr std::string_view kArguments = "<|tool_call_argument_begin|>", kEnd = "<|tool_call_end|>";
  Markers arguments_{{std::string(kArguments)}};
};

class SolarCalls final : public SectionedCalls {
 public:
  SolarCalls()
      : SectionedCalls({"<|begin|>assistant<|tool_calls|>", "<|tool_calls|>"}, "<|tool_call:begin|>", {"<|calls|>"}) {}

  std::vector<std::string> inner_markers() const override {
    auto all = SectionedCalls::inner_markers();
    all.insert(all.end(), {name_.texts()[0], arguments_.texts()[0], std::string(kEnd)});
    return all;
  }

 protected:
  Task<bool> one(Calls& calls) const override {
    Source& in = calls.in;
    const auto id = co_await take_name_and(in, name_);
    if (!id) co_return false;
    const auto name = co_await take_name_and(in, arguments_);
    if (!name) co_return false;
    const bool ok = co_await call_with_object(calls, std::string(trim(*name)), std::string(trim(*id)));
    if (!ok) co_return false;
    co_return co_await take_end(in, kEnd);
  }

 private:
  static constexpr std::string_view kEnd = "<|tool_call:end|>";
  Markers name_{{"<|tool_call:name|>"}}, arguments_{{"<|tool_call:args|>"}};
};

class MistralCalls final : public ToolNotation {
 public:
  MistralCalls() : ToolNotation({"[TOOL_CALLS]"}), list_(make_notation(JsonNotation{.opens = opens(), .closes = {}})) {}

  std::vector<std::string> inner_markers() const override { return {"[CALL_ID]", "[ARGS]"}; }

  Task<bool> read(Calls& calls, int open) const override {
    Source& in = calls.in;
    const bool more = co_await skip_space(in);
    if (more && (in.peek() == '[' || in.peek() == '{')) co_return co_await list_->read(calls, open);
    const auto name = co_await take_name(in, after_name_);
    if (!name) co_return false;
    std::string id;
    const bool has_id = co_await take_text(in, "[CALL_ID]");
    if (has_id) {
      const auto text = co_await take_name(in, after_id_);
      if (!text) co_return false;
      id = trim(*text);
    }
    co_await take_text(in, "[ARGS]");
    co_return co_await call_with_object(calls, std::string(trim(*name)), id);
  }

 private:
  NotationPtr list_;
  Markers after_name_{{"[CALL_ID]", "[ARGS]", "{"}}, after_id_{{"[ARGS]", "{"}};
};

class FunctionTagCalls final : public ToolNotation {
 public:
  FunctionTagCalls() : ToolNotation({"<function="}) {}

  std::vector<std::string> inner_markers() const override { return {"</function>"}; }

  Task<bool> read(Calls& calls, int) const override {
    Source& in = calls.in;
    const auto name = co_await take_name(in, name_end_);
    if (!name) co_return false;
    in.take();
    const bool ok = co_await call_with_object(calls, std::string(trim(*name)), {});
    if (!ok) co_return false;
    co_await skip_space(in);
    const bool closed = co_await take_text(in, "</function>");
    if (closed) in.settle();
    co_return true;
  }

 private:
  Markers name_end_{{">"}};
};

// A tool's name alone on the first line of a reply or after a marker, its arguments below. `text_name`: the name that
// text goes by, "" if it has none.
class FirstLineCalls final : public ToolNotation {
 public:
  FirstLineCalls(std::vector<std::string> opens, std::string text_name)
      : ToolNotation(std::move(opens)), text_name_(std::move(text_name)) {}

  std::string_view bare_starts() const override {
    return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  }

  Task<bool> read(Calls& calls, int) const override {
    Source& in = calls.in;
    std::string name;
    while (true) {
      // A marker may follow a text's first word.
      const bool goes_on =
          name.size() <= kMaxNameBytes && co_await in.has() && !is_space(in.peek()) && in.peek() != '>';
      if (!goes_on) break;
      name += in.take();
    }
    const bool text = !text_name_.empty() && name == text_name_;
    const bool line_ends = (text || calls.schemas.has(name)) && co_await take_text(in, "\n");
    if (!line_ends) co_return false;
    if (!text) {
      const bool ok = co_await call_with_object(calls, std::move(name), {});
      if (!ok) co_return false;
    }
    in.settle();
    co_return true;
  }

 private:
  std::string text_name_;
};

}  // namespace

NotationPtr first_line_notation() {
  return std::make_shared<FirstLineCalls>(std::vector<std::string>(), "");
}

NotationPtr recipient_notation() {
  return std::make_shared<FirstLineCalls>(std::vector<std::string>{">>>"}, "all");
}

NotationPtr solar_notation() {
  return std::make_shared<SolarCalls>();
}

NotationPtr deepseek_notation() {
  return std::make_shared<DeepSeekCalls>();
}

NotationPtr kimi_notation() {
  return std::make_shared<KimiCalls>();
}

NotationPtr mistral_notation() {
  return std::make_shared<MistralCalls>();
}

NotationPtr function_tag_notation() {
  return std::make_shared<FunctionTagCalls>();
}

}  // namespace weir::text::parse
