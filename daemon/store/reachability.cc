#include "daemon/store/reachability.h"

#include <chrono>
#include <string>

#include "daemon/base/time.h"
#include "daemon/store/engine.h"
#include "daemon/store/rows.h"

namespace locksley::daemon {

void Reachability::note_away() {
  const MutexLock lock(mutex_);
  if (stopping_ || !is_reachable()) return;
  is_reachable_ = false;
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void Reachability::stop() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

void Reachability::run() {
  constexpr auto kPause = std::chrono::milliseconds(100);  // guess
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (is_reachable()) {
      changed_.wait(mutex_);
      continue;
    }
    lock.unlock();
    const bool can = can_read();
    lock.lock();
    if (can) {
      is_reachable_ = true;
      continue;
    }
    const Instant next = now() + kPause;
    while (!stopping_ && changed_.wait_until(mutex_, next) == std::cv_status::no_timeout) {
    }
  }
}

bool Reachability::can_read() const {
  constexpr auto kPatience = std::chrono::seconds(3);  // guess: only stop() waits for this thread
  const EngineReading reading(engine_);
  if (!reading.is_valid()) return false;
  std::string ignored;
  return reading.get_within(Table::kIndex, Key(kFormKey), ignored, kPatience).has_value();
}

}  // namespace locksley::daemon
