// Errors as OpenAI clients expect them: an HTTP status and {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>

#include "base/result.h"

namespace weir::api {

int http_status(const Error& error);
std::string error_body(const Error& error);

// The `code` field: what a program can act on. Null in the body when empty.
std::string_view error_code_name(const Error& error);

}  // namespace weir::api
