#pragma once

#include <sys/types.h>

#include <vector>

namespace locksley::daemon {

// The children of the calling thread, as /proc has them; of all threads of the process. Those that have ended
// and were not waited for are among them. Empty if /proc is not there.
std::vector<pid_t> own_children();
std::vector<pid_t> all_children();

}  // namespace locksley::daemon
