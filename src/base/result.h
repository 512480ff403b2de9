// Result<T>: a value, or an Error written for the person who can do something about it.
//
// An error message says what happened with both numbers (found, allowed), why, and what to do. The code decides the
// HTTP status and the OpenAI error type (api/errors.h) and the exit status of the program (2 for anything a file or a
// flag did).
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace weir {

enum class ErrorCode {
  kInvalidArgument,        // 400: the request or flag is wrong
  kContextLengthExceeded,  // 400: prompt (and reply) do not fit the model or the KV pool
  kUnauthorized,           // 401
  kNotFound,               // 404: model, route, file
  kTooLarge,               // 413: body or header over its limit
  kUnsupported,            // 400: a feature or format weir does not have
  kCorruptFile,            // a model file contradicts itself or its format
  kOverloaded,             // 503: a queue is full, or the server is shutting down
  kInternal,               // 500
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string param;  // the request field or file field at fault; may be empty
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...), {}});
}

// The same with the field at fault named.
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail_at(std::string param, ErrorCode code, fmt::format_string<Args...> format,
                                            Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...), std::move(param)});
}

}  // namespace weir

#define WEIR_CONCAT_(a, b) a##b
#define WEIR_CONCAT(a, b) WEIR_CONCAT_(a, b)

// WEIR_TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
#define WEIR_TRY(declaration, expression)                                                    \
  auto WEIR_CONCAT(result_, __LINE__) = (expression);                                        \
  if (!WEIR_CONCAT(result_, __LINE__)) [[unlikely]]                                          \
    return tl::unexpected<::weir::Error>(std::move(WEIR_CONCAT(result_, __LINE__)).error()); \
  declaration = *std::move(WEIR_CONCAT(result_, __LINE__))

// WEIR_RETURN_IF_ERROR(f()): the same for a Status.
#define WEIR_RETURN_IF_ERROR(expression)                                \
  do {                                                                  \
    auto status_ = (expression);                                        \
    if (!status_) [[unlikely]]                                          \
      return tl::unexpected<::weir::Error>(std::move(status_).error()); \
  } while (false)
