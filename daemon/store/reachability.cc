#include "daemon/store/reachability.h"

#include <chrono>
#include <system_error>

#include "daemon/base/time.h"

namespace locksley::daemon {

void Reachability::note_away(const RowRange& range) {
  const MutexLock lock(mutex_);
  if (stopping_ || !is_reachable()) return;
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {
      return;  // the system has no more threads
    }
  }
  wanted_ = {range.table, std::string(range.low), std::string(range.high), std::string(range.from_at_most)};
  is_reachable_ = false;
  changed_.notify_all();
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
    const Wanted wanted = wanted_;
    lock.unlock();
    const bool can = can_read(wanted);
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

bool Reachability::can_read(const Wanted& wanted) const {
  constexpr auto kPatience =
      std::chrono::seconds(20);  // as StoredPayloads has; only stop() waits for this thread
  const EngineReading reading(engine_);
  if (!reading.is_valid()) return false;
  const auto row = reading.first_row_within(
      {.table = wanted.table, .low = wanted.low, .high = wanted.high, .from_at_most = wanted.from_at_most},
      kPatience);
  // An error of another kind is for the reading that wants the row.
  return row || row.error().kind != EngineError::Kind::kAway;
}

}  // namespace locksley::daemon
