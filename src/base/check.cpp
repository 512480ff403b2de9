#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace weir {

void check_failed(const char* file, int line, const char* condition, std::string_view details) {
  const std::string message = fmt::format("CHECK failed at {}:{}: {}{}{}\nThis is a bug in weir, not in the request.\n",
                                          file, line, condition, details.empty() ? "" : "  ", details);
  std::fwrite(message.data(), 1, message.size(), stderr);
  std::abort();
}

}  // namespace weir
