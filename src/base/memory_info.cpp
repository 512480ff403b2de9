#include "base/memory_info.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

namespace weir {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// A file that holds one number; nullopt when it is absent or says "max".
std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text)) return std::nullopt;
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

// "Key:   1234 kB" in a /proc file, in bytes.
std::optional<std::int64_t> read_kilobytes(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    std::istringstream fields(line.substr(key.size()));
    std::int64_t kilobytes = 0;
    if (fields >> kilobytes) return kilobytes * 1024;
  }
  return std::nullopt;
}

std::int64_t cgroup_left(const std::string& limit_path, const std::string& used_path) {
  const auto limit = read_number(limit_path);
  const auto used = read_number(used_path);
  if (!limit || !used) return kUnlimited;
  return std::max<std::int64_t>(0, *limit - *used);
}

// The cgroup v2 folder of this process, from "0::/path" in /proc/self/cgroup.
std::string cgroup_v2_folder(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("0::")) return root + "/sys/fs/cgroup" + line.substr(3);
  }
  return root + "/sys/fs/cgroup";
}

}  // namespace

std::int64_t available_memory_bytes(const std::string& root) {
  const std::int64_t machine = read_kilobytes(root + "/proc/meminfo", "MemAvailable:").value_or(kUnlimited);
  const std::string v2 = cgroup_v2_folder(root);
  const std::int64_t in_v2 = cgroup_left(v2 + "/memory.max", v2 + "/memory.current");
  const std::string v1 = root + "/sys/fs/cgroup/memory";
  const std::int64_t in_v1 = cgroup_left(v1 + "/memory.limit_in_bytes", v1 + "/memory.usage_in_bytes");
  return std::min({machine, in_v2, in_v1});
}

std::int64_t peak_resident_bytes() {
  return read_kilobytes("/proc/self/status", "VmHWM:").value_or(0);
}

}  // namespace weir
