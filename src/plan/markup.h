// Text in HTML and SVG: names come from model files and traces, and nothing of them may become markup.
#pragma once

#include <string>
#include <string_view>

namespace weir::plan {

// Usable between tags and inside of quoted attributes. Line ends and tabs stay; other control characters and
// bytes that are no UTF-8, with which SVG would be no XML, are named as base/printable.h names them.
std::string escape_markup(std::string_view text);

}  // namespace weir::plan
