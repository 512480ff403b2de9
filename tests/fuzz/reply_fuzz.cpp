// A hostile reply, in any notation. Whatever it holds, the parser ends; how the text is cut does not matter; and what
// comes out is no more than went in, but for quotes and escapes.
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

#include "text/parse/testing.h"

namespace {

using namespace weir::text::parse;

const Json kTools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
  "properties": {"s": {"type": "string"}, "n": {"type": ["integer", "null"]}, "o": {"anyOf": [{"type": "object"}]}}}}}])");

std::vector<std::string_view> cut(std::string_view text, std::mt19937& random) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t n = std::min<std::size_t>(1 + random() % 7, text.size());
    pieces.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return pieces;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto reasoning = reasoning_parsers(), tools = tool_parsers();
  if (size < 4) return 0;
  const auto format = choose_format("", reasoning[data[0] % reasoning.size()], tools[data[1] % tools.size()]);
  if (!format) std::abort();
  const std::string_view text(reinterpret_cast<const char*>(data) + 4, size - 4);
  const auto syntax = testing::syntax_of(*format, kTools);
  syntax->start.reasoning = format->reasoning && (data[2] & 1) != 0;
  syntax->start.continued = (data[2] & 2) != 0;
  syntax->calls = (data[2] & 4) == 0;
  const auto whole = testing::parse(syntax, {text});
  std::mt19937 random(data[3]);
  if (!(testing::parse(syntax, cut(text, random)) == whole)) std::abort();
  std::size_t out = whole.content.size() + whole.reasoning.size();
  for (const auto& call : whole.calls) {
    if (call.name.empty()) std::abort();
    out += call.name.size() + call.arguments.size() + call.id.size();
  }
  if (out > 6 * text.size() + 64) std::abort();
  return 0;
}
