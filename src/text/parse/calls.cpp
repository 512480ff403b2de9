#include "text/parse/calls.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "text/parse/json_scanner.h"

namespace weir::text::parse {
namespace {

using Step = JsonScanner::Step;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Arguments that came as a whole: an object as it is, an object in a string as that object.
std::string as_arguments(std::string json) {
  if (json == "null") return "{}";
  if (json.front() != '"') return json;
  const auto text = decode_json_string(json);
  if (text && is_json(*text) && text->find_first_not_of(" \t\r\n") == text->find('{')) return *text;
  return json;
}

}  // namespace

void append_calls(std::vector<CallDelta>& calls, std::vector<CallDelta>&& next) {
  for (CallDelta& call : next) {
    const auto same = std::find_if(calls.begin(), calls.end(), [&](const auto& c) { return c.index == call.index; });
    if (same == calls.end()) {
      calls.push_back(std::move(call));
    } else {
      same->arguments += call.arguments;
    }
  }
}

void Delta::append(Delta&& next) {
  content += next.content;
  reasoning += next.reasoning;
  append_calls(calls, std::move(next.calls));
}

void Calls::begin(std::string name, std::string id) {
  give_up();
  if (whole_) in.record(&text_);
  in.settle();
  call_ = {count_++, true, std::move(name), std::move(id), {}};
  if (!whole_) return out_->calls.push_back(std::move(call_));
  open_ = true;
  scanner_ = {};
}

void Calls::end() {
  in.record(nullptr);
  text_.clear();
  open_ = broken_ = false;
}

bool Calls::give_up() {
  if (!open_) return false;
  const bool is_call = cut_off_ || (!broken_ && scanner_.complete());
  if (is_call) {
    out_->calls.push_back(std::move(call_));
  } else {
    out_->content += text_;
    --count_;
  }
  end();
  return !is_call;
}

void Calls::arguments(std::string_view json) {
  in.settle();
  CHECK(count_ > 0, "arguments of no call");
  if (open_) {
    call_.arguments += json;
    for (const char c : json) {
      if (broken_) return;
      const Step step = scanner_.push(c);
      broken_ = step == Step::kBad || step == Step::kEndBefore;
      if (step != Step::kEnd) continue;
      out_->calls.push_back(std::move(call_));
      end();
      return;
    }
    return;
  }
  auto& calls = out_->calls;
  if (calls.empty() || calls.back().index != count_ - 1) calls.push_back({count_ - 1, false, {}, {}, {}});
  calls.back().arguments += json;
}

Task<std::optional<std::string>> take_json_string(Source& in) {
  const bool quoted = co_await in.has() && in.peek() == '"';
  if (!quoted) co_return std::nullopt;
  const auto json = co_await take_json(in);
  if (!json) co_return std::nullopt;
  co_return decode_json_string(*json);
}

Task<std::optional<std::string>> take_json(Source& in) {
  JsonScanner scanner;
  std::string out;
  while (true) {
    const bool goes_on = co_await in.has();
    if (!goes_on) break;
    const char c = in.peek();
    const bool in_string = scanner.in_string();
    const Step step = scanner.push(c);
    if (step == Step::kBad) co_return std::nullopt;
    if (step == Step::kEndBefore) co_return out;
    in.take();
    if (in_string && static_cast<unsigned char>(c) < 0x20) {
      append_json_escaped(out, c);
    } else {
      out += c;
    }
    if (step == Step::kEnd) co_return out;
  }
  if (!scanner.complete()) co_return std::nullopt;
  co_return out;
}

Task<bool> object_ahead(Source& in) {
  const bool brace = co_await in.has() && in.peek() == '{';
  if (!brace) co_return false;
  std::size_t at = 1;
  while (true) {
    const bool goes_on = co_await in.has(at);
    if (!goes_on) break;
    const char c = in.peek(at++);
    if (c == '"' || c == '}') co_return true;
    if (!is_space(c)) break;
  }
  co_return false;
}

Task<bool> stream_object(Calls& calls) {
  JsonScanner scanner;
  while (true) {
    const bool goes_on = co_await calls.in.has();
    if (!goes_on) break;
    const char c = calls.in.peek();
    const bool in_string = scanner.in_string();
    const Step step = scanner.push(c);
    if (step == Step::kBad || step == Step::kEndBefore) co_return false;
    calls.in.take();
    if (in_string && static_cast<unsigned char>(c) < 0x20) {
      std::string escaped;
      append_json_escaped(escaped, c);
      calls.arguments(escaped);
    } else {
      calls.argument_byte(c);
    }
    if (step == Step::kEnd) co_return true;
  }
  co_return false;
}

namespace {

// Reads the members of one call's object.
class JsonCallReader {
 public:
  JsonCallReader(Calls& calls, JsonCall form) : calls_(calls), in_(calls.in), form_(form) {}

  Task<bool> run() {
    in_.take();
    while (true) {
      const bool goes_on = co_await skip_space(in_);
      if (!goes_on) break;
      const char c = in_.peek();
      if (c == '}') {
        in_.take();
        if (--depth_ == 0) co_return end();
      } else if (c == ',') {
        in_.take();
      } else {
        const bool ok = co_await member();
        if (!ok) co_return false;
      }
    }
    co_return false;
  }

 private:
  Task<bool> member() {
    const auto key = co_await take_json_string(in_);
    if (!key) co_return false;
    co_await skip_space(in_);
    const bool colon = co_await take_text(in_, ":");
    const bool more = colon && co_await skip_space(in_);
    if (!more) co_return false;
    if (form_ == JsonCall::kKeyed) {
      name_ = *key;
      co_return co_await arguments();
    }
    const char first = in_.peek();
    if (first == '"' && is_one_of(*key, {"name", "tool_name", "function", "function_name"})) {
      co_return co_await text(name_);
    }
    if (is_one_of(*key, {"arguments", "parameters", "args", "input"})) co_return co_await arguments();
    if (first == '"' && is_one_of(*key, {"id", "tool_call_id"})) co_return co_await text(id_);
    if (first == '{' && *key == "function" && depth_ == 1) {
      in_.take();
      ++depth_;
      co_return true;
    }
    const auto other = co_await take_json(in_);
    co_return other.has_value();
  }

  Task<bool> text(std::string& out) {
    const auto value = co_await take_json_string(in_);
    if (!value || value->empty() || (begun_ && &out == &name_)) co_return false;
    out = *value;
    co_return true;
  }

  Task<bool> arguments() {
    if (begun_ || held_) co_return false;
    const bool streamed = !name_.empty() && co_await object_ahead(in_);
    if (streamed) {
      begin();
      co_return co_await stream_object(calls_);
    }
    held_ = co_await take_json(in_);
    co_return held_.has_value();
  }

  void begin() {
    calls_.begin(name_, id_);
    begun_ = true;
  }

  bool end() {
    if (!begun_) {
      if (name_.empty() || (!held_ && form_ != JsonCall::kNamed)) return false;
      begin();
      calls_.arguments(held_ ? as_arguments(std::move(*held_)) : "{}");
    }
    in_.settle();
    return true;
  }

  Calls& calls_;
  Source& in_;
  JsonCall form_;
  std::string name_, id_;
  std::optional<std::string> held_;  // arguments that came before the name, or that are no object
  int depth_ = 1;                    // 2: inside "function": {...}
  bool begun_ = false;
};

}  // namespace

Task<bool> take_json_call(Calls& calls, JsonCall form) {
  JsonCallReader reader(calls, form);
  co_return co_await reader.run();
}

namespace {

// The text of one Python literal: up to the comma or bracket that ends it. nullopt: it never ends.
Task<std::optional<std::string>> take_python_text(Source& in) {
  std::string out, open;
  while (true) {
    const bool goes_on = co_await in.has();
    if (!goes_on) break;
    const char c = in.peek();
    if (c == '\'' || c == '"') {
      out += in.take();
      std::size_t quotes = 1;
      while (true) {
        const bool goes_on = quotes < 3 && co_await in.has() && in.peek() == c;
        if (!goes_on) break;
        out += in.take();
        ++quotes;
      }
      if (quotes == 2) continue;  // an empty string
      for (std::size_t closing = 0; closing < quotes;) {
        const bool more = co_await in.has();
        if (!more) co_return std::nullopt;
        const char inner = in.take();
        out += inner;
        closing = inner == c ? closing + 1 : 0;
        const bool escaped = inner == '\\' && co_await in.has();
        if (escaped) out += in.take();
      }
      continue;
    }
    if (open.empty() && (c == ',' || c == ')')) co_return out;
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) co_return std::nullopt;
      open.pop_back();
    }
    out += in.take();
  }
  co_return std::nullopt;
}

Task<std::string> take_identifier(Source& in) {
  std::string out;
  while (true) {
    const bool goes_on = out.size() < kMaxNameBytes && co_await in.has() && is_name_char(in.peek());
    if (!goes_on) break;
    out += in.take();
  }
  co_return out;
}

}  // namespace

Task<bool> take_python_call(Calls& calls) {
  Source& in = calls.in;
  std::string name = co_await take_identifier(in);
  const bool open = !name.empty() && co_await take_text(in, "(");
  if (!open) co_return false;
  bool begun = false;
  while (true) {
    const bool goes_on = co_await skip_space(in);
    if (!goes_on) break;
    if (in.peek() == ')') {
      in.take();
      if (!begun) calls.begin(name);
      calls.arguments(begun ? "}" : "{}");
      co_return true;
    }
    if (in.peek() == ',' && begun) {
      in.take();
      continue;
    }
    const std::string key = co_await take_identifier(in);
    co_await skip_space(in);
    const bool equals = !key.empty() && co_await take_text(in, "=");
    if (!equals) co_return false;
    const auto text = co_await take_python_text(in);
    const auto json = text ? python_to_json(*text) : std::nullopt;
    if (!json) co_return false;
    if (!begun) calls.begin(name);
    calls.arguments((begun ? ", " : "{") + json_string(key) + ": " + *json);
    begun = true;
  }
  co_return false;
}

}  // namespace weir::text::parse
