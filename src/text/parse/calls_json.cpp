// Calls as JSON objects: Hermes and Qwen (<tool_call>), Mistral before 2025, Llama 3, Granite, Cohere, Jamba, Hunyuan,
// MiniMax M1, InternLM, Nemotron, Phi-4, Apertus and others. They differ in the markers around and in whether there is
// a list. Also calls in Python's syntax: Llama 4, LFM2, OLMo 3.
#include "text/parse/notation.h"

namespace weir::text::parse {
namespace {

bool begins_identifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Takes one of `closes` and the white space before it, and settles that; else leaves both.
Task<bool> take_close(Source& in, const Markers& closes) {
  std::size_t space = 0;
  while (true) {
    const bool goes_on = co_await in.has(space) && is_space(in.peek(space));
    if (!goes_on) break;
    ++space;
  }
  for (const std::string& close : closes.texts()) {
    std::size_t same = 0;
    while (true) {
      const bool goes_on = same < close.size() && co_await in.has(space + same) && in.peek(space + same) == close[same];
      if (!goes_on) break;
      ++same;
    }
    if (same < close.size()) continue;
    in.drop(space + same);
    in.settle();
    co_return true;
  }
  co_return false;
}

class JsonCalls final : public ToolNotation {
 public:
  explicit JsonCalls(JsonNotation notation)
      : ToolNotation(notation.opens),
        form_(notation.form),
        closes_(notation.closes),
        bare_(notation.bare),
        python_(notation.python) {}

  std::string_view bare_starts() const override { return bare_ ? "{[" : ""; }
  std::vector<std::string> inner_markers() const override { return closes_.texts(); }

  Task<bool> read(Calls& calls, int open) const override {
    Source& in = calls.in;
    // Without a marker, an object counts only if it is a whole call.
    const JsonCall form = open < 0 && form_ == JsonCall::kNamed ? JsonCall::kNamedFull : form_;
    bool in_list = false, any = false;
    while (true) {
      const bool more = co_await skip_space(in);
      const char c = more ? in.peek() : '\0';
      if (c == '{') {
        const bool ok = co_await take_json_call(calls, form);
        if (!ok) co_return false;
        any = true;
      } else if (python_ && begins_identifier(c)) {
        const bool ok = co_await take_python_call(calls);
        if (!ok) co_return false;
        any = true;
      } else if (c == '[' && !in_list) {
        in.take();
        in_list = true;
      } else if (any && ((c == ',' && in_list) || c == ';')) {
        in.take();
      } else {
        break;
      }
    }
    if (in_list && any && co_await in.has() && in.peek() == ']') {
      in.take();
      in.settle();
    }
    if (any && !closes_.texts().empty()) co_await take_close(in, closes_);
    co_return any;
  }

 private:
  JsonCall form_;
  Markers closes_;
  bool bare_, python_;
};

class PythonCalls final : public ToolNotation {
 public:
  explicit PythonCalls(PythonNotation notation)
      : ToolNotation(notation.opens), closes_(notation.closes), bare_(notation.bare) {}

  std::string_view bare_starts() const override { return bare_ ? "[" : ""; }
  std::vector<std::string> inner_markers() const override { return closes_.texts(); }

  Task<bool> read(Calls& calls, int) const override {
    Source& in = calls.in;
    bool in_list = false, any = false;
    while (true) {
      const bool goes_on = co_await skip_space(in);
      if (!goes_on) break;
      const char c = in.peek();
      if (c == '[' && !in_list && !any) {
        in.take();
        in_list = true;
      } else if (c == ',' && any) {
        in.take();
      } else if (begins_identifier(c)) {
        const bool ok = co_await take_python_call(calls);
        if (!ok) co_return false;
        any = true;
      } else {
        break;
      }
    }
    if (in_list && any && co_await in.has() && in.peek() == ']') {
      in.take();
      in.settle();
    }
    if (any) co_await take_close(in, closes_);
    co_return any;
  }

 private:
  Markers closes_;
  bool bare_;
};

}  // namespace

NotationPtr make_notation(JsonNotation notation) {
  return std::make_shared<JsonCalls>(std::move(notation));
}

NotationPtr make_notation(PythonNotation notation) {
  return std::make_shared<PythonCalls>(std::move(notation));
}

}  // namespace weir::text::parse
