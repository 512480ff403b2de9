#include "apps/template_command.h"

#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "text/chat_template.h"

namespace weir::apps {

namespace {

using text::Json;

std::optional<std::string> optional_string(const Json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

// The template of the line before, which scripts send again and again.
struct LastTemplate {
  std::string source;
  std::optional<text::ChatTemplate> parsed;
};

Result<text::Rendered> render(const Json& request, LastTemplate& last) {
  if (!request.is_object()) return fail(ErrorCode::kInvalidArgument, "the request is not a JSON object");
  const auto source = optional_string(request, "template_text");
  if (!source) return fail_at("template_text", ErrorCode::kInvalidArgument, "template_text is missing or no string");
  if (!last.parsed || last.source != *source) {
    last.parsed.reset();
    WEIR_TRY(last.parsed, text::ChatTemplate::parse(*source));
    last.source = *source;
  }
  const std::string now = optional_string(request, "now").value_or("");
  if (request.contains("context")) {
    if (!request["context"].is_object())
      return fail_at("context", ErrorCode::kInvalidArgument, "context is not a JSON object");
    return last.parsed->render_context(request["context"], now);
  }
  text::RenderInput input;
  if (request.contains("messages")) input.messages = request["messages"];
  if (request.contains("tools")) input.tools = request["tools"];
  if (request.contains("kwargs")) input.kwargs = request["kwargs"];
  input.bos_token = optional_string(request, "bos_token");
  input.eos_token = optional_string(request, "eos_token");
  input.now = now;
  return last.parsed->render(input);
}

}  // namespace

int template_render_filter() {
  std::ios::sync_with_stdio(false);
  LastTemplate last;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json answer = Json::object();
    const Json request = Json::parse(line, nullptr, false);
    if (request.is_discarded()) {
      answer["error"] = "the request is not valid JSON";
    } else if (const auto rendered = render(request, last)) {
      answer["text"] = rendered->text;
    } else {
      answer["error"] = rendered.error().message;
    }
    // Texts are valid UTF-8 already; replacing is for messages that quote a broken request.
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
    if (!std::cout) break;  // nobody reads any more
  }
  return 0;
}

}  // namespace weir::apps
