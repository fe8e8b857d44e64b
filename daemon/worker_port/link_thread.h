// The link thread as a role that clang checks, and the clock of its leases.
#pragma once

#include <time.h>

#include <chrono>

#include "core/base/job.h"
#include "core/sync/thread_role.h"

namespace locksley::daemon {

// The role of the thread that runs the links to remote workers. Before that thread starts and after
// it has ended, the owner of the WorkerPort may take the role.
inline constexpr ThreadRole kLinkThread;

// The clock of leases: it goes on while the machine is suspended, so that a daemon that wakes up
// knows that its leases have run out. Any thread.
inline Nanoseconds boot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + Nanoseconds(now.tv_nsec);
}

}  // namespace locksley::daemon
