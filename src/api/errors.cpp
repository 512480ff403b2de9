#include "api/errors.h"

#include "api/json_writer.h"
#include "text/detokenizer.h"

namespace weir::api {
namespace {

std::string_view error_type(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kContextLengthExceeded:
    case ErrorCode::kTooLarge:
    case ErrorCode::kUnsupported:
      return "invalid_request_error";
    case ErrorCode::kUnauthorized:
      return "authentication_error";
    case ErrorCode::kNotFound:
      return "not_found_error";
    case ErrorCode::kOverloaded:
      return "overloaded_error";
    case ErrorCode::kCorruptFile:
    case ErrorCode::kInternal:
      break;
  }
  return "server_error";
}

}  // namespace

int http_status(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kContextLengthExceeded:
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kUnauthorized:
      return 401;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kOverloaded:
      return 503;
    case ErrorCode::kCorruptFile:
    case ErrorCode::kInternal:
      break;
  }
  return 500;
}

std::string_view error_code_name(const Error& error) {
  switch (error.code) {
    case ErrorCode::kContextLengthExceeded:
      return "context_length_exceeded";
    case ErrorCode::kUnauthorized:
      return "invalid_api_key";
    case ErrorCode::kNotFound:
      return error.param == "model" ? "model_not_found" : "not_found";
    case ErrorCode::kTooLarge:
      return "request_too_large";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kOverloaded:
      return "overloaded";
    case ErrorCode::kCorruptFile:
    case ErrorCode::kInternal:
      return "internal_error";
    case ErrorCode::kInvalidArgument:
      break;
  }
  return {};
}

std::string error_body(const Error& error) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("error").begin_object();
  // A message may quote what the client sent, whatever bytes that had.
  w.key("message").string(text::sanitise_utf8(error.message));
  w.key("type").string(error_type(error.code));
  w.key("param");
  if (error.param.empty()) {
    w.null();
  } else {
    w.string(text::sanitise_utf8(error.param));
  }
  w.key("code");
  if (const auto code = error_code_name(error); code.empty()) {
    w.null();
  } else {
    w.string(code);
  }
  w.end_object().end_object();
  return out;
}

}  // namespace weir::api
