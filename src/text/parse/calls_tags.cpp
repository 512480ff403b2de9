// Calls with a tag for each parameter: Qwen 3 Coder, Seed-OSS, MiniMax M2, DeepSeek V3.2, MiniCPM 5, Step 3, GLM 4.5
// and their relatives. Values stand as bare text; what a tool's schema says of a parameter tells a number from a
// string.
#include "text/parse/notation.h"

namespace weir::text::parse {
namespace {

// Names may stand in quotes.
std::string unquoted(std::string_view text) {
  return std::string(trim(text, " \t\r\n\"'"));
}

// The ways a value can end: its closing tag, with or without the line break that belongs to it.
Markers value_ends(const std::string& close) {
  return Markers({close, "\n" + close, "\r\n" + close});
}

ValueTypes string_type() {
  ValueTypes types;
  types.known = types.string = true;
  return types;
}

// The members of a call's arguments object, as they come.
class Members {
 public:
  Members(Calls& calls, std::string function) : calls_(calls), function_(std::move(function)) {
    calls.begin(function_);
  }

  // A parameter's value up to one of `ends`, which it takes too. False: the text ended before.
  Task<bool> value(const std::string& key, ValueTypes types, const Markers& usual_ends) {
    Source& in = calls_.in;
    const bool line_break = co_await in.has() && in.peek() == '\n';
    if (line_break) in.take();
    // XML's way of saying that a text may have tags in it.
    const bool verbatim = co_await take_text(in, "<![CDATA[");
    const Markers ends = verbatim ? Markers({"]]>" + usual_ends.texts()[0]}) : usual_ends;
    if (verbatim) types = string_type();
    const bool streamed = types.only_string();
    if (streamed) calls_.arguments(lead() + json_string(key) + ": \"");
    std::string text, escaped;
    while (true) {
      const bool goes_on = co_await in.has();
      if (!goes_on) break;
      if (ends.may_begin(in.peek())) {
        const int end = co_await marker_ahead(in, ends);
        if (end >= 0) {
          in.drop(ends.texts()[static_cast<std::size_t>(end)].size());
          calls_.arguments(streamed ? "\"" : lead() + json_string(key) + ": " + bare_value_to_json(text, types));
          co_return true;
        }
      }
      const char c = in.take();
      if (!streamed) {
        text += c;
        continue;
      }
      escaped.clear();
      append_json_escaped(escaped, c);
      calls_.arguments(escaped);
    }
    co_return false;
  }

  ValueTypes types_of(const std::string& key) const { return calls_.schemas.types_of(function_, key); }

  void close() { calls_.arguments(first_ ? "{}" : "}"); }

 private:
  std::string lead() { return std::exchange(first_, false) ? "{" : ", "; }

  Calls& calls_;
  std::string function_;
  bool first_ = true;
};

class TagCalls final : public ToolNotation {
 public:
  explicit TagCalls(TagNotation notation)
      : ToolNotation(all_opens(notation)), n_(std::move(notation)), section_opens_(n_.section_opens.size()) {
    std::vector<std::string> steps = n_.section_closes;
    steps.insert(steps.begin(), n_.call_open);
    between_ = Markers(steps);
    steps = n_.section_closes;
    steps.insert(steps.begin(), {n_.key_open, n_.call_close});
    inside_ = Markers(steps);
    name_end_ = Markers({n_.name_end});
    key_end_ = Markers({n_.key_end});
    value_end_ = value_ends(n_.value_close);
  }

  std::vector<std::string> inner_markers() const override {
    std::vector<std::string> all = n_.section_closes;
    all.insert(all.end(), {n_.call_open, n_.call_close, n_.key_open, n_.value_close});
    return all;
  }

  Task<bool> read(Calls& calls, int open) const override {
    Source& in = calls.in;
    const bool in_section = open >= 0 && static_cast<std::size_t>(open) < section_opens_;
    if (!in_section) {
      const bool ok = co_await call(calls);
      // Where models leave the opening tag out, they write the closing one all the same.
      const bool tag = ok && !n_.section_closes.empty() && co_await skip_space(in);
      const int step = tag ? co_await marker_ahead(in, between_) : -1;
      if (step > 0) take(in, between_, step);
      co_return ok;
    }
    bool any = false;
    while (true) {
      const bool goes_on = co_await skip_space(in);
      if (!goes_on) break;
      const int step = co_await marker_ahead(in, between_);
      if (step < 0 || (step > 0 && !any)) break;
      if (step > 0) {
        take(in, between_, step);
        co_return true;
      }
      in.drop(n_.call_open.size());
      const bool ok = co_await call(calls);
      if (!ok) co_return false;
      any = true;
    }
    co_return any;
  }

 private:
  static std::vector<std::string> all_opens(const TagNotation& n) {
    auto opens = n.section_opens;
    if (n.bare_calls || opens.empty()) opens.push_back(n.call_open);
    return opens;
  }

  static void take(Source& in, const Markers& markers, int which) {
    in.drop(markers.texts()[static_cast<std::size_t>(which)].size());
    in.settle();
  }

  // After the tag that opens it.
  Task<bool> call(Calls& calls) const {
    Source& in = calls.in;
    const auto name = co_await take_name(in, name_end_);
    if (!name || unquoted(*name).empty()) co_return false;
    in.drop(n_.name_end.size());
    Members members(calls, unquoted(*name));
    while (true) {
      const bool goes_on = co_await skip_space(in);
      if (!goes_on) break;
      const int step = co_await marker_ahead(in, inside_);
      if (step == 0) {
        in.drop(n_.key_open.size());
        const bool ok = co_await member(in, members);
        if (!ok) co_return false;
        continue;
      }
      if (step == 1) in.drop(n_.call_close.size());
      break;
    }
    members.close();
    co_return true;
  }

  Task<bool> member(Source& in, Members& members) const {
    const auto head = co_await take_name(in, key_end_);
    if (!head) co_return false;
    in.drop(n_.key_end.size());
    // DeepSeek's tags say of every parameter whether it is a string: name="city" string="true"
    const auto begin = head->find('"');
    const auto end = begin == std::string::npos ? begin : head->find('"', begin + 1);
    const std::string key = unquoted(end == std::string::npos ? *head : head->substr(begin + 1, end - begin - 1));
    ValueTypes types = members.types_of(key);
    if (head->find("string=\"true") != std::string::npos) {
      types = string_type();
    } else if (head->find("string=\"false") != std::string::npos) {
      types = {};
    }
    co_return co_await members.value(key, types, value_end_);
  }

  TagNotation n_;
  std::size_t section_opens_;
  Markers between_, inside_, name_end_, key_end_, value_end_;
};

// <tool_call>NAME <arg_key>K</arg_key> <arg_value>V</arg_value> ... </tool_call>
class GlmCalls final : public ToolNotation {
 public:
  GlmCalls() : ToolNotation({"<tool_call>"}) {}

  std::vector<std::string> inner_markers() const override {
    return {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"};
  }

  Task<bool> read(Calls& calls, int) const override {
    Source& in = calls.in;
    co_await skip_space(in);
    const auto text = co_await take_name(in, name_end_);
    const std::string name = text ? unquoted(*text) : std::string();
    // A name is one word; anything else is text about tool calls.
    if (name.empty() || name.find_first_of(" \t\n{}<>\"") != std::string::npos) co_return false;
    // Without parameters it takes more than that to make a call of a word between tags.
    const bool has_more = co_await skip_space(in);
    const int next = has_more ? co_await marker_ahead(in, name_end_) : -1;
    if (next != 1 && !calls.schemas.has(name)) co_return false;
    Members members(calls, name);
    while (true) {
      const bool goes_on = co_await skip_space(in);
      if (!goes_on) break;
      const int step = co_await marker_ahead(in, name_end_);
      if (step == 0) in.drop(name_end_.texts()[0].size());
      if (step != 1) break;
      in.drop(name_end_.texts()[1].size());
      const auto key = co_await take_name(in, key_end_);
      if (!key) co_return false;
      in.drop(key_end_.texts()[0].size());
      co_await skip_space(in);
      const bool value = co_await take_text(in, "<arg_value>");
      const bool ok = value && co_await members.value(unquoted(*key), members.types_of(unquoted(*key)), value_end_);
      if (!ok) co_return false;
    }
    members.close();
    co_return true;
  }

 private:
  Markers name_end_{{"</tool_call>", "<arg_key>"}}, key_end_{{"</arg_key>"}};
  Markers value_end_ = value_ends("</arg_value>");
};

}  // namespace

NotationPtr make_notation(TagNotation notation) {
  return std::make_shared<TagCalls>(std::move(notation));
}

NotationPtr glm_notation() {
  return std::make_shared<GlmCalls>();
}

}  // namespace weir::text::parse
