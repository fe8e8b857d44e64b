// A lock of a mutex that counts how often it had to wait.
#pragma once

#include "core/pool/worker_stats.h"
#include "core/sync/mutex.h"

namespace locksley::daemon {

// Holds a mutex from its construction to its destruction, as a MutexLock does, and counts the times
// that it had to wait for it. On the stack of one thread, which alone writes the counter.
class LOCKSLEY_SCOPED_CAPABILITY CountedLock {
 public:
  CountedLock(Mutex& mutex, OwnedCounter& waits) LOCKSLEY_ACQUIRE(mutex) : mutex_(mutex) {
    if (mutex_.try_lock()) return;
    waits.add(1);
    mutex_.lock();
  }
  ~CountedLock() LOCKSLEY_RELEASE() { mutex_.unlock(); }
  CountedLock(const CountedLock&) = delete;
  CountedLock& operator=(const CountedLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace locksley::daemon
