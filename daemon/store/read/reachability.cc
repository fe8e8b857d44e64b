#include "daemon/store/read/reachability.h"

#include <limits>
#include <system_error>

#include "daemon/base/time.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {

void Reachability::note_away(std::uint64_t batch, const std::stop_token& stop) {
  if (!is_reachable() || replies(batch, std::chrono::seconds(1), stop)) return;
  const MutexLock lock(mutex_);
  if (stopping_ || !is_reachable()) return;
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {
      return;  // the system has no more threads
    }
  }
  batch_ = batch;
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
    const std::uint64_t batch = batch_;
    lock.unlock();
    const bool does = replies(batch, std::chrono::seconds(2), {});
    lock.lock();
    if (does) {
      is_reachable_ = true;
      continue;
    }
    const Instant next = now() + kPause;
    while (!stopping_ && changed_.wait_until(mutex_, next) == std::cv_status::no_timeout) {
    }
  }
}

bool Reachability::replies(std::uint64_t batch, std::chrono::milliseconds patience,
                           const std::stop_token& stop) const {
  const EngineReading reading(engine_);
  if (!reading.is_valid()) return false;
  const Key none = part_key(batch, std::numeric_limits<std::uint64_t>::max()), next = part_key(batch + 1, 0);
  const auto row =
      reading.first_row_within({.table = Table::kPayloads, .low = none, .high = next}, patience, stop);
  // An error of another kind is for the reading that wants the payloads.
  return row || row.error().kind != EngineError::Kind::kAway;
}

}  // namespace locksley::daemon
