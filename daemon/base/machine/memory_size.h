// How much memory the daemon may use.
#pragma once

#include <cstdint>

namespace locksley::daemon {

// Bytes of memory that this process may use: of the machine, or of its control group, if that has a
// limit. Without swap. Any thread. Reads files of the kernel.
std::uint64_t usable_memory_bytes();

}  // namespace locksley::daemon
