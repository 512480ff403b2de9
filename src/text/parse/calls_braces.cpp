// Calls of Gemma 4 (<|tool_call>call:NAME{key:<|"|>text<|"|>,n:3}<tool_call|>) and FunctionGemma
// (<start_function_call>call:NAME{key:<escape>text<escape>}<end_function_call>): objects with bare keys, and a marker
// in place of quotes so that text needs no escapes.
#include "text/parse/notation.h"

namespace weir::text::parse {
namespace {

constexpr std::size_t kMaxDepth = 100;

class BraceCalls final : public ToolNotation {
 public:
  explicit BraceCalls(const BraceNotation& notation)
      : ToolNotation({notation.open}), close_(notation.close), quote_({notation.quote}) {}

  std::vector<std::string> ends_of_reasoning() const override { return opens(); }
  std::vector<std::string> inner_markers() const override { return {close_, quote_.texts()[0]}; }

  Task<bool> read(Calls& calls, int) const override {
    Source& in = calls.in;
    const bool head = co_await take_text(in, "call:");
    if (!head) co_return false;
    const auto name = co_await take_name(in, brace_);
    if (!name || name->empty()) co_return false;
    calls.begin(*name);
    const bool ok = co_await object(calls);
    if (!ok) co_return false;
    co_await skip_space(in);
    const bool closed = co_await take_text(in, close_);
    if (closed) in.settle();
    co_return true;
  }

 private:
  // Where the next byte stands in a nest of objects and lists.
  struct Level {
    bool list, first = true;
  };

  Task<bool> object(Calls& calls) const {
    Source& in = calls.in;
    std::vector<Level> open;
    bool value = true;  // one must come now
    while (value || !open.empty()) {
      const bool more = co_await skip_space(in);
      if (!more) co_return false;
      const char c = in.peek();
      if (!value && c == (open.back().list ? ']' : '}')) {
        in.take();
        calls.argument_byte(c);
        open.pop_back();
        continue;
      }
      // Another bracket than the open one: nothing below would take it.
      if (!value && (c == ']' || c == '}')) co_return false;
      if (!value) {
        if (c == ',' && !open.back().first) in.take();
        const bool ok = co_await separate(calls, open.back());
        if (!ok) co_return false;
        value = true;
        continue;
      }
      value = false;
      if (c == '{' || c == '[') {
        if (open.size() == kMaxDepth) co_return false;
        in.take();
        calls.argument_byte(c);
        open.push_back({c == '['});
        continue;
      }
      const bool ok = co_await scalar(calls);
      if (!ok) co_return false;
    }
    co_return true;
  }

  // Before a value: the comma, and in an object the key.
  Task<bool> separate(Calls& calls, Level& level) const {
    Source& in = calls.in;
    std::string out = std::exchange(level.first, false) ? "" : ", ";
    if (!level.list) {
      co_await skip_space(in);
      const bool quoted = co_await take_text(in, quote_.texts()[0]);
      const auto key = co_await take_name(in, quoted ? quote_ : colon_);
      if (!key) co_return false;
      if (quoted) in.drop(quote_.texts()[0].size());
      co_await skip_space(in);
      const bool colon = co_await take_text(in, ":");
      if (!colon) co_return false;
      out += json_string(*key) + ": ";
    }
    calls.arguments(out);
    co_return true;
  }

  Task<bool> scalar(Calls& calls) const {
    Source& in = calls.in;
    const bool quoted = co_await take_text(in, quote_.texts()[0]);
    if (!quoted) {
      std::string text;
      while (true) {
        const bool goes_on = co_await in.has() && std::string_view(",]}").find(in.peek()) == std::string_view::npos;
        if (!goes_on) break;
        text += in.take();
      }
      calls.arguments(bare_value_to_json(text, {}));
      co_return true;
    }
    calls.arguments("\"");
    while (true) {
      const bool goes_on = co_await in.has();
      if (!goes_on) break;
      if (quote_.may_begin(in.peek())) {
        const int end = co_await marker_ahead(in, quote_);
        if (end >= 0) {
          in.drop(quote_.texts()[0].size());
          calls.arguments("\"");
          co_return true;
        }
      }
      std::string escaped;
      append_json_escaped(escaped, in.take());
      calls.arguments(escaped);
    }
    co_return false;
  }

  std::string close_;
  Markers quote_, brace_{{"{"}}, colon_{{":"}};
};

}  // namespace

NotationPtr make_notation(BraceNotation notation) {
  return std::make_shared<BraceCalls>(notation);
}

}  // namespace weir::text::parse
