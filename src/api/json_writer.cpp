#include "api/json_writer.h"

#include <cmath>

namespace weir::api {

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, done, i - done);
    done = i + 1;
    switch (c) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      default:
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    }
  }
  out.append(text, done);
  out.push_back('"');
}

JsonWriter& JsonWriter::logprob(float logprob) {
  constexpr float kMasked = -9999.0f;
  separate();
  fmt::format_to(std::back_inserter(*out_), "{}", logprob >= kMasked && std::isfinite(logprob) ? logprob : kMasked);
  return *this;
}

}  // namespace weir::api
