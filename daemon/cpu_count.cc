#include "daemon/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace locksley::daemon {

namespace {

namespace fs = std::filesystem;

// CPUs that the files of one control group allow; nothing if it sets no quota. Version 2: cpu.max, "max
// 100000" or "150000 100000"; version 1: two files.
std::optional<double> quota_of(const fs::path& group) {
  double quota = 0;
  double period = 0;
  if (std::ifstream file(group / "cpu.max"); file) {
    if (file >> quota >> period && period > 0) return quota / period;
    return {};
  }
  std::ifstream quota_file(group / "cpu.cfs_quota_us");
  std::ifstream period_file(group / "cpu.cfs_period_us");
  if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) return quota / period;
  return {};
}

// The least quota of this process's group and of all above it.
double cgroup_cpus() {
  double least = INFINITY;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_v2 = controllers.empty();
    if (!is_v2 && controllers.find("cpu") == std::string::npos) continue;
    const fs::path root = is_v2 ? fs::path("/sys/fs/cgroup") : fs::path("/sys/fs/cgroup") / controllers;
    for (fs::path path = line.substr(second + 1);; path = path.parent_path()) {
      if (const auto quota = quota_of(root / path.relative_path())) least = std::min(least, *quota);
      if (path == path.parent_path()) break;
    }
  }
  return least;
}

}  // namespace

std::uint32_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int affinity = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return static_cast<std::uint32_t>(std::max(1.0, std::min<double>(affinity, std::ceil(cgroup_cpus()))));
}

}  // namespace locksley::daemon
