// ChatTemplate: messages -> prompt text, by the model's own Jinja template, rendered as Hugging Face transformers
// renders it.
//
// The engine is a sandbox: a template reads only the data it is given, and steps, output, recursion and range() are
// limited, so a hostile template costs milliseconds and gives an error. Immutable after parse; render() may run on any
// number of threads.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace weir::text {

// Objects keep the order of their keys, as Python's do: templates print them.
using Json = nlohmann::ordered_json;

struct Rendered {
  std::string text;
  // The parts of `text` that came out of the caller's data (messages, tools, kwargs) and not out of the template:
  // sorted, disjoint. They go to EncodeOptions::literal, so that a control token typed by a user stays text.
  std::vector<ByteRange> user;
};

struct RenderInput {
  Json messages = Json::array();
  Json tools = nullptr;          // null: not defined as a list
  Json kwargs = Json::object();  // further variables: add_generation_prompt, enable_thinking, documents ...
  // Trusted: spans of them are not `user`. Not given: undefined in the template.
  std::optional<std::string> bos_token, eos_token;
  std::string now;  // "YYYY-MM-DDTHH:MM:SS" local time for strftime_now; empty = the clock
  // Messages with tool calls and an empty content have the content none, by which some templates (DeepSeek R1's) tell
  // that there are calls to show. Otherwise fields that are null are left out, as the reference does.
  bool none_beside_calls = false;
};

class ChatTemplate {
 public:
  // Errors: kInvalidArgument with line and what was expected.
  static Result<ChatTemplate> parse(std::string source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  Result<Rendered> render(const RenderInput& input) const;
  // With exactly these variables and nothing else (besides the globals every template has). For tests.
  Result<Rendered> render_context(const Json& context, std::string_view now) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::text
