// The clock of a thread's own work. Any thread.
#pragma once

#include <chrono>
#include <ctime>

#include "core/base/job.h"

namespace locksley::daemon {

// The processor time that the calling thread has used. Unlike wall-clock time, it does not depend
// on other programs of the machine. A system call.
inline Nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

}  // namespace locksley::daemon
