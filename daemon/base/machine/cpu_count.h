// How many processors the daemon may use. Any thread; blocks for files of the kernel.
#pragma once

#include <cstdint>

namespace locksley::daemon {

// The number of CPUs that this process may use, at least 1: those of its affinity mask, but at most
// its control group's quota, rounded up (half a CPU is one worker). Reads /proc and /sys; limits
// that cannot be read are ignored.
std::uint32_t usable_cpus();

}  // namespace locksley::daemon
