#include "base/cpu_info.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace weir {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || (end != text.data() + text.size() && *end != ' ')) return std::nullopt;
  return value;
}

std::vector<int> affinity_mask() {
  // A kernel built for more CPUs than cpu_set_t holds answers EINVAL until the mask is large enough.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 16; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    std::vector<int> cpus;
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; known && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (known) return cpus;
  }
  return {};
}

int physical_cores(const std::string& root, std::span<const int> affinity) {
  std::set<std::string> cores;  // a core is named by the list of its hardware threads
  for (const int cpu : affinity) {
    const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    auto threads = first_line(topology + "core_cpus_list");
    if (!threads) threads = first_line(topology + "thread_siblings_list");  // its name before Linux 5.3
    cores.insert(threads ? *threads : "cpu" + std::to_string(cpu));
  }
  return static_cast<int>(cores.size());
}

// CPUs' worth of time per period, rounded up; nullopt where unlimited or unknown.
std::optional<std::int64_t> quota_cpus(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return (*quota - 1) / *period + 1;
}

std::optional<std::int64_t> quota_v2(const std::string& folder) {
  const auto line = first_line(folder + "/cpu.max");  // "max 100000" or "150000 100000"
  if (!line) return std::nullopt;
  const auto space = line->find(' ');
  if (space == std::string::npos) return std::nullopt;
  return quota_cpus(parse_integer(std::string_view(*line).substr(0, space)),
                    parse_integer(std::string_view(*line).substr(space + 1)));
}

std::optional<std::int64_t> quota_v1(const std::string& folder) {
  const auto quota = first_line(folder + "/cpu.cfs_quota_us");  // -1: unlimited
  const auto period = first_line(folder + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return quota_cpus(parse_integer(*quota), parse_integer(*period));
}

// The tightest quota of a group and all its parents. Inside a container `group` may name a path of the host that is not
// mounted here; the mount's own root, which is then the container's group, is always looked at.
template <class Quota>
std::optional<std::int64_t> tightest(const std::string& mount, std::string group, Quota quota) {
  if (group.find("..") != std::string::npos) group.clear();
  std::optional<std::int64_t> least;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    if (const auto cpus = quota(mount + group)) least = least ? std::min(*least, *cpus) : *cpus;
    if (group.empty()) return least;
    group.resize(std::min(group.size(), group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/')));
  }
}

bool has_controller(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == name) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

std::optional<std::int64_t> cgroup_cpus(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::optional<std::int64_t> least;
  const auto consider = [&](std::optional<std::int64_t> cpus) {
    if (cpus) least = least ? std::min(*least, *cpus) : *cpus;
  };
  std::string line;  // "hierarchy:controllers:path"; hierarchy 0 without controllers is v2
  while (std::getline(file, line)) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    const std::string mounts = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      consider(tightest(mounts, group, quota_v2));
      consider(tightest(mounts + "/unified", group, quota_v2));
    } else if (has_controller(controllers, "cpu")) {
      for (const std::string& name : {controllers, std::string("cpu"), std::string("cpu,cpuacct")}) {
        consider(tightest(mounts + "/" + name, group, quota_v1));
      }
    }
  }
  return least;
}

}  // namespace

namespace detail {

int usable_cores(const std::string& root, std::span<const int> affinity) {
  std::int64_t cores = std::max(1, physical_cores(root, affinity));
  if (const auto quota = cgroup_cpus(root)) cores = std::min(cores, *quota);
  return static_cast<int>(std::max<std::int64_t>(1, cores));
}

std::string cpu_model_name(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(':');
    const auto start = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "unknown CPU";
}

}  // namespace detail

int usable_cores() {
  return detail::usable_cores("", affinity_mask());
}

std::string cpu_model_name() {
  return detail::cpu_model_name("");
}

}  // namespace weir
