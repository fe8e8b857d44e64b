#include "daemon/store/disk_space.h"

#include <filesystem>
#include <system_error>

namespace locksley::daemon {

std::optional<DiskSpace> disk_space(const std::string& path) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path, error);
  if (error) return std::nullopt;
  return DiskSpace{.size_bytes = space.capacity, .free_bytes = space.available};
}

}  // namespace locksley::daemon
