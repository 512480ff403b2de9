#include "plan/markup.h"

#include "base/printable.h"

namespace weir::plan {

std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char c : printable(text, "\n\t")) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace weir::plan
