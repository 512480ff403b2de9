// The one clock of the API: monotonic seconds, comparable with the times in engine outputs.
#pragma once

#include <chrono>

namespace weir::api {

inline double monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace weir::api
