// CHECK: what must hold whatever the input. A failure is a bug in weir, never in a request: it prints the values and
// aborts. Refusals of input are values (base/result.h); "not now" is an optional or an enum.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace weir {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view details);

}  // namespace weir

// CHECK(condition) or CHECK(condition, "format {}", values...). Always on; keep it out of inner loops.
#define CHECK(condition, ...)                                                                           \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]] {                                                                    \
      ::weir::check_failed(__FILE__, __LINE__, #condition, ::weir::detail::check_details(__VA_ARGS__)); \
    }                                                                                                   \
  } while (false)

namespace weir::detail {

inline std::string check_details() {
  return {};
}
template <class... Args>
std::string check_details(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace weir::detail
