// How much room a file system has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace locksley::daemon {

struct DiskSpace {
  std::uint64_t size_bytes = 0;
  std::uint64_t free_bytes = 0;  // for this process; what is kept for root alone is not free
};

// Of the file system that `path` lies in; nothing if the system does not say. One system call, which on a
// local file system waits for no disk: 1 us.
std::optional<DiskSpace> disk_space(const std::string& path);

}  // namespace locksley::daemon
