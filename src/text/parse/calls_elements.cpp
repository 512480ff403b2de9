// Calls whose arguments are elements named like the parameters, nested like their values, each tag behind a marker:
//
//   NS<tool_call>
//   NS<invoke
//   name="f">NS<city>ParisNS</city>NS<opts>NS<a>1NS</a>NS</opts>NS<list>NS<item>xNS</item>NS</list>NS</invoke>
//   NS</tool_call>
//
// where NS is MiniMax M3's ]<]minimax[>[ . Whether elements are an object's members or a list's, and a text a string or
// a number, is for the tool's schema to say; without one, elements that are all called `item` are a list.
#include "text/parse/sectioned_calls.h"

namespace weir::text::parse {
namespace {

// Deeper nests are no calls. Bounds the recursion.
constexpr int kMaxDepth = 32;
const std::string kMark = "]<]minimax[>[";

class ElementCalls final : public SectionedCalls {
 public:
  ElementCalls() : SectionedCalls({kMark + "<tool_call>"}, kMark + "<invoke name=", {kMark + "</tool_call>"}) {}

  std::vector<std::string> inner_markers() const override {
    auto all = SectionedCalls::inner_markers();
    all.insert(all.end(), {invoke_end_, kMark});
    return all;
  }

 protected:
  Task<bool> one(Calls& calls) const override {
    Source& in = calls.in;
    const auto head = co_await take_name(in, tag_end_);
    const std::string name(head ? trim(*head, " \t\r\n\"'") : "");
    if (name.empty()) co_return false;
    in.drop(1);
    const Json* schema = calls.schemas.parameters_of(name);
    calls.begin(name);
    bool first = true;
    while (true) {
      co_await skip_space(in);
      const bool end = co_await take_text(in, invoke_end_);
      if (end) break;
      const auto key = co_await open_tag(in);
      if (!key) co_return false;
      const auto value = co_await element(in, *key, member_of_schema(schema, *key), 0);
      if (!value) co_return false;
      calls.arguments((std::exchange(first, false) ? "{" : ", ") + json_string(*key) + ": " + *value);
    }
    calls.arguments(first ? "{}" : "}");
    co_return true;
  }

 private:
  // NS<key>. nullopt: none comes next.
  Task<std::optional<std::string>> open_tag(Source& in) const {
    const bool marked = co_await take_text(in, kMark + "<");
    const bool more = marked && co_await in.has() && in.peek() != '/';
    if (!more) co_return std::nullopt;
    auto key = co_await take_name(in, tag_end_);
    if (key) in.drop(1);
    co_return key;
  }

  // An element's value as JSON, with the tag that closes it. nullopt: it never closes.
  Task<std::optional<std::string>> element(Source& in, const std::string& key, const Json* schema, int depth) const {
    const std::string close = kMark + "</" + key + ">";
    const ValueTypes types = types_of_schema(schema);
    std::string text, elements;
    std::size_t count = 0;
    const bool ambiguous = types.array == types.object;
    bool list = types.array && !types.object;
    while (true) {
      const bool goes_on = co_await in.has();
      if (!goes_on) break;
      const int mark = mark_.may_begin(in.peek()) ? co_await marker_ahead(in, mark_) : -1;
      if (mark < 0) {
        text += in.take();
        continue;
      }
      const bool closed = co_await take_text(in, close);
      if (closed) {
        if (count > 0) co_return (list ? "[" : "{") + elements + (list ? "]" : "}");
        co_return scalar(text, types);
      }
      const auto inner = co_await open_tag(in);
      // Between elements there is nothing but white space.
      if (!inner || depth == kMaxDepth || !trim(text).empty()) co_return std::nullopt;
      if (count == 0 && ambiguous) list = *inner == "item";
      const Json* inner_schema = list ? element_of_schema(schema) : member_of_schema(schema, *inner);
      const auto value = co_await element(in, *inner, inner_schema, depth + 1);
      if (!value) co_return std::nullopt;
      if (count++ > 0) elements += ", ";
      if (!list) elements += json_string(*inner) + ": ";
      elements += *value;
      text.clear();
    }
    co_return std::nullopt;
  }

  static std::string scalar(const std::string& text, const ValueTypes& types) {
    // An object or a list without elements is written as nothing.
    if (text.empty() && types.known && !types.string) {
      if (types.object) return "{}";
      if (types.array) return "[]";
    }
    return bare_value_to_json(text, types);
  }

  std::string invoke_end_ = kMark + "</invoke>";
  Markers tag_end_{{">"}}, mark_{{kMark}};
};

}  // namespace

NotationPtr element_notation() {
  return std::make_shared<ElementCalls>();
}

}  // namespace weir::text::parse
