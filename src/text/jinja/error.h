// TemplateError: how parsing and rendering stop. It never leaves the text folder: ChatTemplate turns it into an Error.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

namespace weir::text::jinja {

class TemplateError : public std::exception {
 public:
  explicit TemplateError(std::string message, int line = 0) : message_(std::move(message)), line_(line) {}

  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& message() const { return message_; }
  int line() const { return line_; }  // 0: where the interpreter stood

 private:
  std::string message_;
  int line_;
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void raise_at(int line, fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(fmt::format(format, std::forward<Args>(args)...), line);
}

}  // namespace weir::text::jinja
