// The limits of a worker's process: when it is started again, how long it stays, and how much
// memory it uses. Any thread; only resident_bytes() blocks, on a file of the kernel.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "core/base/job.h"

namespace locksley::daemon {

// The pause after a worker's process could not be started, or died before it had read its first
// job. `failures`: how many processes in a row had failed so before it.
inline Nanoseconds pause_after(std::uint32_t failures) {
  constexpr Nanoseconds kFirst = std::chrono::milliseconds(100);
  constexpr Nanoseconds kLongest = std::chrono::seconds(5);
  return std::min(kLongest, kFirst * (std::int64_t{1} << std::min(failures, 10U)));
}

// How long a process stays after its first answer although another handler could use its slot: as
// long as its start took, so that at most about half of the slot's time goes into starts. Not
// longer than 30 s (a guess: few programs take longer to load), since a first job may be long.
inline Nanoseconds stay_after(Nanoseconds start) {
  constexpr Nanoseconds kLongest = std::chrono::seconds(30);
  return std::min(kLongest, start);
}

// The memory that a process uses. Reads a file of /proc; 0 if the process has ended.
inline std::uint64_t resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  file >> pages >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace locksley::daemon
