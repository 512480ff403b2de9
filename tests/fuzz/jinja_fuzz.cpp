// A hostile chat template, perhaps with a hostile context: the bytes up to the first NUL are the template, JSON may
// follow. Whatever comes out is valid UTF-8 with sorted, disjoint ranges; everything else is an error with a message.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/jinja/unicode.h"

namespace {

using weir::text::ChatTemplate;
using weir::text::Json;

constexpr std::string_view kMessages = R"([
  {"role": "system", "content": " Sé <b>\n"},
  {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image"}], "n": 3},
  {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"items": [1, 2.5, true]}}}]}
])";
constexpr std::string_view kNow = "2026-07-04T12:05:09";

void check(const weir::Result<weir::text::Rendered>& result) {
  if (!result) {
    if (result.error().message.empty()) std::abort();
    return;
  }
  if (!weir::text::jinja::is_valid_utf8(result->text)) std::abort();
  std::size_t end = 0;
  for (const auto& range : result->user) {
    if (range.begin < end || range.end <= range.begin || range.end > result->text.size()) std::abort();
    end = range.end;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Json messages = Json::parse(kMessages);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t source_end = input.find('\0');
  const auto parsed = ChatTemplate::parse(std::string(input.substr(0, source_end)));
  if (!parsed) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  if (source_end != std::string_view::npos) {
    const Json context = Json::parse(input.substr(source_end + 1), nullptr, false);
    if (context.is_object()) check(parsed->render_context(context, kNow));
    return 0;
  }
  weir::text::RenderInput request;
  request.messages = messages;
  request.tools = messages;
  request.bos_token = "<s>";
  request.now = kNow;
  request.kwargs["x"] = "<a>";
  check(parsed->render(request));
  request.kwargs["continue_final_message"] = true;
  request.messages[2]["content"] = "go on";
  check(parsed->render(request));
  return 0;
}
