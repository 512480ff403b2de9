// Calls with a tag for each parameter: Qwen 3 Coder, Seed-OSS, MiniMax M2, DeepSeek V3.2, MiniCPM 5, Step 3, Kimi K3,
// Muse Glimmer, GLM 4.5, Hy3 and their relatives. Values stand as bare text; what a tool's schema says of a parameter
// tells a number from a string.
#include "text/parse/sectioned_calls.h"

namespace weir::text::parse {
namespace {

// Names may stand in quotes.
std::string unquoted(std::string_view text) {
  return std::string(trim(text, " \t\r\n\"'"));
}

// The text of the first attribute in `head` (tool="get_weather" index="1"), or all of it if none stands in quotes.
// `escaped`: with XML's entities for what cannot stand there.
std::string first_attribute(std::string_view head, bool escaped) {
  const auto begin = head.find('"');
  const auto end = begin == std::string_view::npos ? begin : head.find('"', begin + 1);
  if (end == std::string_view::npos) return unquoted(head);
  std::string text(trim(head.substr(begin + 1, end - begin - 1)));
  if (!escaped) return text;
  for (const auto& [entity, c] : {std::pair{std::string_view("&quot;"), '"'}, {std::string_view("&amp;"), '&'}}) {
    for (auto at = text.find(entity); at != std::string::npos; at = text.find(entity, at + 1))
      text.replace(at, entity.size(), 1, c);
  }
  return text;
}

// The ways a value can end: its closing tag, with or without the line break that belongs to it.
Markers value_ends(const std::string& close, bool own_lines) {
  if (!own_lines) return Markers({close});
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
    const bool own_lines = usual_ends.texts().size() > 1;
    const bool line_break = own_lines && co_await in.has() && in.peek() == '\n';
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

  bool empty() const { return first_; }

 private:
  std::string lead() { return std::exchange(first_, false) ? "{" : ", "; }

  Calls& calls_;
  std::string function_;
  bool first_ = true;
};

class TagCalls final : public SectionedCalls {
 public:
  explicit TagCalls(TagNotation notation)
      : SectionedCalls(notation.section_opens, notation.call_open, notation.section_closes,
                       notation.bare_calls || notation.section_opens.empty()),
        n_(std::move(notation)) {
    std::vector<std::string> steps = n_.section_closes;
    steps.insert(steps.begin(), {n_.key_open, n_.call_close});
    if (!n_.object_open.empty()) steps.insert(steps.begin() + 2, n_.object_open);
    inside_ = Markers(steps);
    name_end_ = Markers({n_.name_end});
    key_end_ = Markers({n_.key_end});
    value_end_ = value_ends(n_.value_close, n_.own_lines);
  }

  std::vector<std::string> inner_markers() const override {
    auto all = SectionedCalls::inner_markers();
    all.insert(all.end(), {n_.call_close, n_.key_open, n_.value_close});
    if (!n_.object_open.empty()) all.insert(all.end(), {n_.object_open, n_.object_close});
    return all;
  }

  std::vector<std::string> ends_of_reasoning() const override {
    std::vector<std::string> all;
    for (const auto& open : n_.section_opens) all.insert(all.end(), {open + n_.call_open, open + "\n" + n_.call_open});
    return all;
  }

 protected:
  Task<bool> one(Calls& calls) const override {
    Source& in = calls.in;
    const auto name = co_await take_name(in, name_end_);
    const std::string called = !name ? "" : n_.attributes ? first_attribute(*name, true) : unquoted(*name);
    if (called.empty()) co_return false;
    in.drop(n_.name_end.size());
    Members members(calls, called);
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
      if (step == 2 && !n_.object_open.empty() && members.empty()) co_return co_await whole(calls);
      if (step == 1) in.drop(n_.call_close.size());
      break;
    }
    members.close();
    co_return true;
  }

 private:
  // All arguments as one object, with the tags around it and the one that closes the call.
  Task<bool> whole(Calls& calls) const {
    Source& in = calls.in;
    in.drop(n_.object_open.size());
    co_await skip_space(in);
    const bool object = co_await object_ahead(in);
    const bool ok = object && co_await stream_object(calls);
    if (!ok) co_return false;
    for (const std::string* close : {&n_.object_close, &n_.call_close}) {
      co_await skip_space(in);
      co_await take_text(in, *close);
    }
    in.settle();
    co_return true;
  }

  Task<bool> member(Source& in, Members& members) const {
    const auto head = co_await take_name(in, key_end_);
    if (!head) co_return false;
    in.drop(n_.key_end.size());
    // DeepSeek's and Kimi K3's tags say what a parameter is: name="city" string="true", key="city" type="string"
    const auto says = [&](std::string_view text) { return head->find(text) != std::string::npos; };
    const std::string key = first_attribute(*head, n_.attributes);
    ValueTypes types = members.types_of(key);
    if (says("string=\"true") || says("type=\"string")) {
      types = string_type();
    } else if (says("string=\"false") || says("type=\"")) {
      types = {};
    }
    co_return co_await members.value(key, types, value_end_);
  }

  TagNotation n_;
  Markers inside_, name_end_, key_end_, value_end_;
};

// <tool_call>NAME <arg_key>K</arg_key> <arg_value>V</arg_value> ... </tool_call>; Hy3's stand in a section, the name
// ends with <tool_sep>, and all tags may end with a suffix: <tool_calls:opensource>.
class GlmCalls final : public SectionedCalls {
 public:
  GlmCalls(std::vector<std::string> section_opens, std::vector<std::string> section_closes, const std::string& suffix)
      : SectionedCalls(std::move(section_opens), "<tool_call" + suffix + ">", std::move(section_closes), true),
        name_end_({"</tool_call" + suffix + ">", "<arg_key" + suffix + ">", "<tool_sep" + suffix + ">"}),
        key_end_({"</arg_key" + suffix + ">"}),
        value_end_({"</arg_value" + suffix + ">"}),
        value_open_("<arg_value" + suffix + ">") {}

  std::vector<std::string> inner_markers() const override {
    auto all = SectionedCalls::inner_markers();
    const bool alone = all.size() == 1;  // without a section there is no <tool_sep>
    for (const auto& one : name_end_.texts())
      if (!alone || one != name_end_.texts()[2]) all.push_back(one);
    all.insert(all.end(), {key_end_.texts()[0], value_open_, value_end_.texts()[0]});
    return all;
  }

 protected:
  Task<bool> one(Calls& calls) const override {
    Source& in = calls.in;
    co_await skip_space(in);
    const auto text = co_await take_name(in, name_end_);
    const std::string name = text ? unquoted(*text) : std::string();
    // A name is one word; anything else is text about tool calls.
    if (name.empty() || name.find_first_of(" \t\n{}<>\"") != std::string::npos) co_return false;
    int next = co_await marker_ahead(in, name_end_);
    const bool separated = next == 2;
    if (separated) {
      in.drop(name_end_.texts()[2].size());
      co_await skip_space(in);
      next = co_await marker_ahead(in, name_end_);
    }
    // Without parameters it takes more than that to make a call of a word between tags.
    if (next != 1 && !separated && !calls.schemas.has(name)) co_return false;
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
      const bool value = co_await take_text(in, value_open_);
      const bool ok = value && co_await members.value(unquoted(*key), members.types_of(unquoted(*key)), value_end_);
      if (!ok) co_return false;
    }
    members.close();
    co_return true;
  }

 private:
  Markers name_end_, key_end_, value_end_;
  std::string value_open_;
};

// Either of Hy3's two spellings.
class HunyuanCalls final : public ToolNotation {
 public:
  HunyuanCalls()
      : ToolNotation({"<tool_calls:opensource>", "<tool_call:opensource>", "<tool_calls>", "<tool_call>"}),
        suffixed_({opens()[0]}, {"</tool_calls:opensource>"}, ":opensource"),
        plain_({opens()[2]}, {"</tool_calls>"}, "") {}

  std::vector<std::string> inner_markers() const override {
    auto all = suffixed_.inner_markers();
    const auto more = plain_.inner_markers();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Task<bool> read(Calls& calls, int open) const override {
    const GlmCalls& spelling = open < 2 ? suffixed_ : plain_;
    co_return co_await spelling.read(calls, open % 2);
  }

 private:
  GlmCalls suffixed_, plain_;
};

}  // namespace

NotationPtr make_notation(TagNotation notation) {
  return std::make_shared<TagCalls>(std::move(notation));
}

NotationPtr glm_notation() {
  const std::vector<std::string> no_section;
  return std::make_shared<GlmCalls>(no_section, no_section, "");
}

NotationPtr hunyuan_notation() {
  return std::make_shared<HunyuanCalls>();
}

}  // namespace weir::text::parse
