#include "daemon/store/engine/disk_space.h"

#include <sys/statvfs.h>

namespace locksley::daemon {

std::optional<DiskSpace> disk_space(const std::string& path) {
  // std::filesystem::space() takes the path apart first, which costs as much as the system call.
  struct statvfs space{};
  if (::statvfs(path.c_str(), &space) != 0) return std::nullopt;
  const std::uint64_t block = space.f_frsize;
  return DiskSpace{.size_bytes = space.f_blocks * block, .free_bytes = space.f_bavail * block};
}

}  // namespace locksley::daemon
