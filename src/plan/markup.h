// Text in HTML and SVG: names come from model files and traces, and nothing of them may become markup.
#pragma once

#include <string>
#include <string_view>

namespace weir::plan {

// Usable between tags and inside of quoted attributes. Control characters go, line ends and tabs stay.
std::string escape_markup(std::string_view text);

}  // namespace weir::plan
