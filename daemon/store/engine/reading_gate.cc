#include "daemon/store/engine/reading_gate.h"

#include <chrono>

#include "daemon/base/time.h"

namespace locksley::daemon {

bool ReadingGate::enter(ReadingWait wait) {
  // About the time that opening takes: a caller that waits briefly must not be held up by a failing
  // disk.
  constexpr auto kBrief = std::chrono::milliseconds(200);
  const MutexLock lock(mutex_);
  if (wait == ReadingWait::kBriefly && !is_open_) {
    const auto deadline = now() + kBrief;
    while (!is_open_ && changed_.wait_until(mutex_, deadline) == std::cv_status::no_timeout) {
    }
  }
  if (is_open_) ++readings_;
  return is_open_;
}

void ReadingGate::leave() {
  const MutexLock lock(mutex_);
  // Under the mutex: the gate may be destroyed as soon as it is released.
  if (--readings_ == 0 && !is_open_) changed_.notify_all();
}

void ReadingGate::open() {
  {
    const MutexLock lock(mutex_);
    is_open_ = true;
  }
  changed_.notify_all();
}

void ReadingGate::close() {
  const MutexLock lock(mutex_);
  is_open_ = false;
  while (readings_ != 0) changed_.wait(mutex_);
}

}  // namespace locksley::daemon
