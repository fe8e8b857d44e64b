#include "daemon/base/machine/cpu_count.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "daemon/base/machine/control_groups.h"

namespace locksley::daemon {

namespace {

namespace fs = std::filesystem;

// The CPUs that the files of one control group allow; nothing if it sets no quota. Version 2:
// cpu.max, "max 100000" or "150000 100000"; version 1: two files.
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

// The smallest quota of this process's control group and of all groups above it.
double cgroup_cpus() {
  double least = INFINITY;
  visit_control_groups("cpu", [&least](const fs::path& group) {
    if (const auto quota = quota_of(group)) least = std::min(least, *quota);
  });
  return least;
}

}  // namespace

std::uint32_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // If the machine has more processors than the set has bits, the kernel refuses the call.
  const bool is_known = ::sched_getaffinity(0, sizeof set, &set) == 0;
  const double affinity = is_known ? CPU_COUNT(&set) : static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  return static_cast<std::uint32_t>(std::max(1.0, std::min(affinity, std::ceil(cgroup_cpus()))));
}

}  // namespace locksley::daemon
