// The chat page served at "/": web/index.html, embedded when weir is built.
#pragma once

#include <string_view>

namespace weir::api {

std::string_view web_page();

}  // namespace weir::api
