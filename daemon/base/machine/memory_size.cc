#include "daemon/base/machine/memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "daemon/base/machine/control_groups.h"

namespace locksley::daemon {

std::uint64_t usable_memory_bytes() {
  auto least = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
               static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  visit_control_groups("memory", [&least](const std::filesystem::path& group) {
    // Version 2, where "max" is no limit, and version 1.
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      std::uint64_t limit = 0;
      if (std::ifstream file(group / name); file >> limit && limit > 0) least = std::min(least, limit);
    }
  });
  return least;
}

}  // namespace locksley::daemon
