// The size and the free space of a file system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace locksley::daemon {

// The room of a file system.
struct DiskSpace {
  std::uint64_t size_bytes = 0;
  std::uint64_t free_bytes = 0;  // for this process: without the blocks that are reserved for root
};

// The space of the file system that contains `path`; nothing if the system call fails. Any thread.
// On a local file system it does not wait for the disk: 1 us.
std::optional<DiskSpace> disk_space(const std::string& path);

}  // namespace locksley::daemon
