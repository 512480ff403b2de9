#include "text/chat_template.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>

#include "text/jinja/error.h"
#include "text/jinja/from_json.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/jinja/text_ops.h"

namespace weir::text {

namespace {

using jinja::TemplateError;

// transformers' own mark, so that templates that know it behave the same.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kReasoningFields[] = {"thinking", "reasoning_content", "reasoning"};

tl::unexpected<Error> refuse(const TemplateError& error, int line) {
  if (line <= 0) return fail(ErrorCode::kInvalidArgument, "chat template: {}", error.message());
  return fail(ErrorCode::kInvalidArgument, "chat template, line {}: {}", line, error.message());
}

// "2026-07-04T12:00:00" or, when it is empty, the clock.
Result<std::tm> local_time(std::string_view now) {
  std::tm time{};
  if (now.empty()) {
    const std::time_t clock = std::time(nullptr);
    localtime_r(&clock, &time);
    return time;
  }
  const std::string text(now);
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (end == nullptr || (*end != '\0' && *end != '.' && *end != 'Z'))
    return fail_at("now", ErrorCode::kInvalidArgument, "now is \"{}\", expected YYYY-MM-DDTHH:MM:SS", now);
  timegm(&time);  // fills in the day of the week and of the year
  return time;
}

// Null fields of a message go, and its reasoning has both of the names that templates look for.
Json normalize_message(const Json& message, bool none_beside_calls) {
  if (!message.is_object()) return message;
  Json kept = Json::object();
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) kept[key] = value;
  if (none_beside_calls && !kept.value("tool_calls", Json()).empty() && kept.value("content", Json("")) == "")
    kept["content"] = nullptr;
  const Json* reasoning = nullptr;
  for (const std::string_view field : {"reasoning_content", "thinking", "reasoning"})
    if (reasoning == nullptr && kept.contains(field)) reasoning = &kept[std::string(field)];
  if (reasoning == nullptr) return kept;
  const Json value = *reasoning;
  Json made = Json::object();
  if (!kept.contains("thinking")) made["thinking"] = value;
  for (const auto& [key, field] : kept.items()) made[key] = field;
  made["reasoning_content"] = value;
  return made;
}

bool is_true(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return false;
    case Json::value_t::boolean:
      return value.get<bool>();
    case Json::value_t::string:
      return !value.get_ref<const std::string&>().empty();
    case Json::value_t::array:
    case Json::value_t::object:
      return !value.empty();
    default:
      return value.get<double>() != 0;
  }
}

// What continue_final_message looks for and cuts at.
class Continuation {
 public:
  // Appends the tag to the field of the last message that is to be continued.
  static Result<Continuation> begin(const Json& field_arg, Json& messages, std::string_view source) {
    Continuation made;
    const std::string field = field_arg.is_string() ? field_arg.get<std::string>() : "content";
    if (messages.empty() || !messages.back().is_object() || !messages.back().contains(field))
      return fail(ErrorCode::kInvalidArgument,
                  "continue_final_message is set but the final message has no \"{}\" to continue!", field);
    if (source.find(field) == std::string_view::npos)
      return fail(ErrorCode::kInvalidArgument,
                  "continue_final_message is set but the chat template does not use \"{}\"", field);
    Json& message = messages.back();
    Json& content = message[field];
    Json* text = &content;
    if (content.is_array()) {
      text = nullptr;
      for (Json& part : content)
        if (part.is_object() && part.contains("text")) text = &part["text"];
    }
    if (text == nullptr || !text->is_string())
      return fail(ErrorCode::kInvalidArgument,
                  "continue_final_message is set but the final message has no text in \"{}\" to continue", field);
    made.message_ = text->get<std::string>();
    const std::string tagged = made.message_ + std::string(kContinueTag);
    const bool reasoning =
        std::find(std::begin(kReasoningFields), std::end(kReasoningFields), field) != std::end(kReasoningFields);
    if (reasoning && content.is_string()) {
      for (const std::string_view name : kReasoningFields)
        if (message.contains(name) && message[std::string(name)] == made.message_) message[std::string(name)] = tagged;
    } else {
      *text = tagged;
    }
    return made;
  }

  // The rendering up to the tag.
  Result<Rendered> finish(const Rendered& rendered) const {
    const std::string_view tag = kContinueTag.substr(0, kContinueTag.size() - 1);
    const std::size_t at = jinja::find_last(rendered.text, tag);
    jinja::Budget budget(0, message_.size() + rendered.text.size());
    const jinja::Text whole(rendered.text, rendered.user);
    const jinja::Text message = jinja::strip(jinja::Text(message_, false), nullptr, jinja::Side::kBoth, budget);
    if (at == std::string::npos || jinja::find_first(rendered.text, message.bytes(), 0) == std::string::npos)
      return fail(
          ErrorCode::kInvalidArgument,
          "continue_final_message is set but the final message does not appear in the chat after applying the chat "
          "template! This can happen if the chat template deletes portions of the final message.");
    jinja::Text cut = jinja::slice(whole, 0, at);
    if (rendered.text.compare(at, kContinueTag.size(), kContinueTag) != 0)
      cut = jinja::strip(cut, nullptr, jinja::Side::kRight, budget);
    return Rendered{cut.bytes(), cut.user()};
  }

 private:
  std::string message_;
};

}  // namespace

struct ChatTemplate::Impl {
  jinja::Template parsed;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string source) {
  try {
    auto impl = std::make_unique<Impl>();
    impl->parsed = jinja::parse_template(std::move(source));
    return ChatTemplate(std::move(impl));
  } catch (const TemplateError& error) {
    return refuse(error, error.line());
  }
}

namespace {

// Collects the variables of a rendering and runs it.
class Rendering {
 public:
  Rendering(const jinja::Template& parsed, const std::tm& now, const jinja::InputSize& size)
      : parsed_(parsed), now_(now), budget_(size.values, size.bytes) {}

  void set(std::string_view name, jinja::Value value) {
    add_entry(*variables_, jinja::Value::string(std::string(name)), std::move(value), budget_);
  }
  void set(std::string_view name, const Json& value) { set(name, jinja::from_json(value, budget_)); }

  Result<Rendered> run() {
    jinja::Interpreter interpreter(parsed_, variables_, budget_, now_);
    try {
      const jinja::Text text = interpreter.run();
      return Rendered{text.bytes(), text.user()};
    } catch (const TemplateError& error) {
      return refuse(error, error.line() > 0 ? error.line() : interpreter.line());
    }
  }

 private:
  const jinja::Template& parsed_;
  std::tm now_;
  jinja::Budget budget_;
  std::shared_ptr<jinja::DictObject> variables_ = std::make_shared<jinja::DictObject>();
};

}  // namespace

Result<Rendered> ChatTemplate::render_context(const Json& context, std::string_view now) const {
  WEIR_TRY(const std::tm time, local_time(now));
  jinja::InputSize size;
  jinja::measure(context, size);
  try {
    Rendering rendering(impl_->parsed, time, size);
    for (const auto& [name, value] : context.items()) rendering.set(name, value);
    return rendering.run();
  } catch (const TemplateError& error) {
    return refuse(error, 0);
  }
}

Result<Rendered> ChatTemplate::render(const RenderInput& input) const {
  WEIR_TRY(const std::tm time, local_time(input.now));
  if (!input.messages.is_array())
    return fail_at("messages", ErrorCode::kInvalidArgument, "messages is a JSON {}, expected an array",
                   input.messages.type_name());
  if (!input.kwargs.is_object() && !input.kwargs.is_null())
    return fail_at("chat_template_kwargs", ErrorCode::kInvalidArgument,
                   "chat template arguments are a JSON {}, expected an object", input.kwargs.type_name());
  Json messages = Json::array();
  for (const Json& message : input.messages) messages.push_back(normalize_message(message, input.none_beside_calls));
  const Json kwargs = input.kwargs.is_null() ? Json::object() : input.kwargs;
  const Json prompt = kwargs.value("add_generation_prompt", Json(false));
  const Json field = kwargs.value("continue_final_message", Json(false));
  std::optional<Continuation> continuation;
  if (is_true(field)) {
    if (is_true(prompt))
      return fail(
          ErrorCode::kInvalidArgument,
          "continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when you "
          "want the model to continue the final message, and add_generation_prompt when it is to start a new one.");
    WEIR_TRY(continuation, Continuation::begin(field, messages, impl_->parsed.source));
  }
  jinja::InputSize size;
  for (const Json* part : {&std::as_const(messages), &input.tools, &kwargs}) jinja::measure(*part, size);
  try {
    Rendering rendering(impl_->parsed, time, size);
    if (input.bos_token) rendering.set("bos_token", jinja::Value::string(jinja::Text(*input.bos_token, false)));
    if (input.eos_token) rendering.set("eos_token", jinja::Value::string(jinja::Text(*input.eos_token, false)));
    rendering.set("documents", Json(nullptr));
    for (const auto& [name, value] : kwargs.items())
      if (name != "continue_final_message") rendering.set(name, value);
    rendering.set("messages", messages);
    rendering.set("tools", input.tools);
    rendering.set("add_generation_prompt", prompt);
    WEIR_TRY(Rendered rendered, rendering.run());
    if (!continuation) return rendered;
    return continuation->finish(rendered);
  } catch (const TemplateError& error) {
    return refuse(error, 0);
  }
}

}  // namespace weir::text
