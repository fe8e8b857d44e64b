// How much memory the daemon may use.
#pragma once

#include <cstdint>

namespace locksley::daemon {

// Bytes of memory that this process may use: the memory of the machine, or the least limit of its
// control group and those above it, if that is less. Without swap. Any thread. Reads files of the
// kernel.
std::uint64_t usable_memory_bytes();

}  // namespace locksley::daemon
