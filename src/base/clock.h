// The one clock of the program: monotonic seconds.
#pragma once

#include <chrono>

namespace weir {

inline double monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace weir
