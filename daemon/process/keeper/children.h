// Lists the processes that this process or thread has started.
#pragma once

#include <sys/types.h>

#include <vector>

namespace locksley::daemon {

// The children of the calling thread, or of all threads of the process, as listed in /proc. They
// include children that have ended and were not waited for. Empty if /proc cannot be read.
std::vector<pid_t> own_children();
std::vector<pid_t> all_children();

}  // namespace locksley::daemon
