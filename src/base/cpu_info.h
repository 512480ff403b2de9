// What this process may use of the machine.
#pragma once

#include <span>
#include <string>

namespace weir {

// Physical cores in this process's affinity mask, at most the cgroup (v1 or v2) CPU quota rounded up, at least 1.
int usable_cores();

// "Intel(R) Xeon(R) Processor", from /proc/cpuinfo; "unknown CPU" where that says nothing.
std::string cpu_model_name();

namespace detail {

// The same of a machine described by the files under `root` ("" is this one). `affinity`: the CPU numbers this process
// may run on.
int usable_cores(const std::string& root, std::span<const int> affinity);
std::string cpu_model_name(const std::string& root);

}  // namespace detail

}  // namespace weir
