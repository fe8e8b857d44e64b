#pragma once

#include <cstdint>

namespace locksley::daemon {

// How many CPUs this process may use: those of its affinity mask, and no more than its control group's quota
// is worth (rounded up: half a CPU is one worker). At least 1. Reads /proc and /sys; what cannot be read does
// not count.
std::uint32_t usable_cpus();

}  // namespace locksley::daemon
