#include "daemon/server/batches/stored/restored_times.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

using std::chrono::milliseconds;

RestoredTimes::RestoredTimes(Parts parts, ReadClocks read)
    : parts_(std::move(parts)), read_(read), timer_(parts_.io), clock_(0, read_()), before_(clock_) {}

void RestoredTimes::see(const StoredBatch& stored) {
  const BatchHistory& history = stored.history;
  newest_ = std::max({newest_, history.submitted_at, history.started_at, history.finished_at});
}

Instant RestoredTimes::forget_at(const StoredBatch& stored) {
  const std::int64_t retain_ms = stored.accepted.retain_ms;
  retained_.push_back({stored.sequence, stored.history.finished_at + retain_ms, retain_ms});
  return retained_.back().at(clock_);
}

void RestoredTimes::judge() {
  before_ = std::exchange(clock_, StoreClock(newest_, read_()));
  if (!clock_.is_doubtful()) return drop_times();
  const bool is_behind = clock_.difference().count() < 0;
  LogLine(
      is_behind
          ? "store: the wall clock stands before the newest time in the store: for some minutes nothing is "
            "deleted because of its age, and no deadline passes"
          : "store: the newest time in the store is old: the daemon was away for so long, or the wall clock "
            "has jumped; for some minutes nothing is deleted because of its age, and no deadline passes")
      .with("newest_time_age_ms", clock_.difference().count())
      .with("minutes", std::chrono::duration_cast<std::chrono::minutes>(StoreClock::kSecondLook).count())
      .write(*parts_.log, is_behind ? spdlog::level::warn : spdlog::level::info);
  for (const Retained& batch : retained_) compute_again(batch);
  timer_.expires_at(clock_.second_look_at());
  timer_.async_wait([this](const asio::error_code& error) {
    kIoThread.assert_held();
    if (!error) look_again();
  });
}

RestoredTimes::Active RestoredTimes::active_of(const StoredBatch& stored) {
  const AcceptedRow& row = stored.accepted;
  return {stored.sequence, row.submitted_at, row.start_at,
          stored.changes.has_no_deadline ? 0 : row.deadline_at};
}

RestoredTimes::Due RestoredTimes::Active::at(const StoreClock& clock) const {
  return {.start = start_at == 0 ? Instant{} : clock.start_at(start_at),
          .deadline = deadline_at == 0 ? kNever
                                       : clock.end_at(deadline_at, milliseconds(deadline_at - submitted_at))};
}

RestoredTimes::Due RestoredTimes::due_of(const StoredBatch& stored) {
  const Active batch = active_of(stored);
  const bool is_timed = batch.start_at != 0 || batch.deadline_at != 0;
  if (is_timed && clock_.is_doubtful()) active_.push_back(batch);
  return batch.at(clock_);
}

void RestoredTimes::look_again() {
  const auto corrected = clock_.corrected(read_());
  if (!corrected) {
    parts_.log->info(
        "store: the wall clock was not set since the start: the ages of batches count by it from now on");
    return drop_times();
  }
  before_ = std::exchange(clock_, *corrected);
  parts_.log->warn(
      "store: the wall clock was set: the ages, delays and deadlines of batches are computed again");
  parts_.slices.add([this](Instant until) {
    kIoThread.assert_held();
    const bool is_done = compute_again(until);
    if (is_done) {
      drop_times();
      parts_.changed();
    }
    return is_done;
  });
}

void RestoredTimes::compute_again(const Retained& batch) {
  parts_.registry.retained().postpone(batch.sequence, batch.at(before_), batch.at(clock_));
}

bool RestoredTimes::compute_again(Instant until) {
  for (; !active_.empty(); active_.pop_back()) {
    if (now() >= until) return false;
    BatchRecord* const record = parts_.registry.by_sequence(active_.back().sequence);
    if (record == nullptr || !record->is_active) continue;
    const Due due = active_.back().at(clock_);
    // If a start or a deadline is no longer scheduled, it has passed, or a command has removed it.
    if (record->due.start != kNever) parts_.registry.schedule(*record, daemon::Due::kStart, due.start);
    if (record->due.deadline != kNever)
      parts_.registry.schedule(*record, daemon::Due::kDeadline, due.deadline);
  }
  for (; !retained_.empty(); retained_.pop_back()) {
    if (now() >= until) return false;
    compute_again(retained_.back());
  }
  return true;
}

void RestoredTimes::drop_times() {
  retained_ = {};
  active_ = {};
}

}  // namespace locksley::daemon
