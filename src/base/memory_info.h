// How much memory this process may still take, and how much it has taken.
#pragma once

#include <cstdint>
#include <string>

namespace weir {

// The least of MemAvailable and what the cgroup (v1 or v2) leaves; `root` is prefixed to every path (tests).
std::int64_t available_memory_bytes(const std::string& root = "");

// The highest resident set of this process so far (VmHWM).
std::int64_t peak_resident_bytes();

}  // namespace weir
