#include "daemon/store/group_commit.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/batch.h"
#include "daemon/store/database.h"
#include "daemon/store/write_group.h"

namespace locksley::daemon {
namespace {

constexpr Nanoseconds kFirstPause = std::chrono::seconds(1);
constexpr Nanoseconds kLongestPause = std::chrono::seconds(5);
constexpr Nanoseconds kSyncPeriod = std::chrono::seconds(1);  // durability: async
constexpr Nanoseconds kLookPeriod = std::chrono::seconds(1);

// What stays of a batch that has gone while it is among the recent: an entry, and the counts of its
// shared_ptr.
constexpr std::size_t kRecentBytes = 96;

std::size_t weight_of(const StoreWrite& write) {
  const auto* step = std::get_if<RecordStep>(&write);
  return step == nullptr ? 0 : sizeof(StoreWrite) + step->step.rows.size_bytes;
}

}  // namespace

GroupCommit::GroupCommit(Database& database, config::Durability durability,
                         std::shared_ptr<spdlog::logger> log)
    : database_(database), durability_(durability), log_(std::move(log)), pause_(kFirstPause) {}

void GroupCommit::start(std::function<void(Outcome)> on_outcome) {
  on_outcome_ = std::move(on_outcome);
  disk_bytes_ = database_.disk_bytes();
  thread_ = std::thread([this] { run(); });
}

GroupCommit::~GroupCommit() { stop(); }

void GroupCommit::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  room_.notify_all();
  thread_.join();
}

Ticket GroupCommit::put(StoreWrite write, Urgency urgency) {
  const bool is_urgent = urgency == Urgency::kAwaited;
  bool wakes = false;
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return ticket_;
    pending_bytes_ += weight_of(write);
    if (gathering_.empty()) due_ = steady_now() + kDelay;
    // The writer, if it sleeps, sleeps for ever, or until something is due.
    wakes = sleeping_ && (is_urgent ? !urgent_.load() : gathering_.empty());
    gathering_.push_back(std::move(write));
    if (is_urgent) urgent_ = true;
    ticket = ticket_;
  }
  if (wakes) wake_.notify_one();
  return ticket;
}

void GroupCommit::wait_for_room() {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return has_room() || stopping_; });
}

// [needs mutex_]
bool GroupCommit::has_room() const {
  return pending_bytes_ <= (error_.empty() ? kMostPending : kMostPendingWhileItFails);
}

std::string GroupCommit::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void GroupCommit::run() {
  std::unique_lock lock(mutex_);
  while (wait_for_work(lock) == Woken::by_work) commit(lock);
  // What is left, and what the disk did not take before.
  if (!error_.empty()) try_again(lock);
  commit(lock);
  if (!kept_.empty()) {
    log_->error(
        "store: {} changes and results could not be written and are lost: these jobs will run again; "
        "error=\"{}\"",
        kept_.size(), error_);
  }
}

GroupCommit::Woken GroupCommit::wait_for_work(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (urgent_) return Woken::by_work;
    if (stopping_) return Woken::by_stop;
    const Nanoseconds now = steady_now();
    if (!gathering_.empty() && now >= due_) return Woken::by_work;
    if (!error_.empty() && now >= next_try_) {
      try_again(lock);
      continue;
    }
    Nanoseconds until = Nanoseconds::max();
    if (!gathering_.empty()) until = due_;
    if (!error_.empty()) until = std::min(until, next_try_);
    if (unsynced_ && error_.empty()) {
      if (now >= next_sync_) {
        lock.unlock();
        auto synced = database_.sync();
        lock.lock();
        unsynced_ = false;
        if (!synced) fail(std::move(synced.error()), {});
        continue;
      }
      until = std::min(until, next_sync_);
    }
    lock.unlock();
    const bool found = spin_.look(true, [this] { return urgent_.load(); });
    lock.lock();
    if (found || urgent_ || stopping_) continue;
    sleeping_ = true;
    if (until == Nanoseconds::max()) {
      if (gathering_.empty()) wake_.wait(lock);
    } else {
      wake_.wait_until(lock, std::chrono::steady_clock::time_point(until));
    }
    sleeping_ = false;
    if (urgent_) spin_.slept();
  }
}

void GroupCommit::commit(std::unique_lock<std::mutex>& lock) {
  Writes writes = std::exchange(gathering_, {});
  if (writes.empty()) return;
  const bool is_awaited = urgent_.exchange(false);
  const Ticket ticket = ticket_++;
  std::string error = error_;
  lock.unlock();
  if (error.empty()) {
    const Nanoseconds began = steady_now();
    if (auto written = write(writes); !written) error = std::move(written.error());
    commit_time_.observe(steady_now() - began);
    if (began >= next_look_) look_at_disk();
  }
  std::size_t weight = 0;
  if (error.empty()) {
    for (const StoreWrite& each : writes) weight += weight_of(each);
    keep_in_memory(writes);
    writes.clear();  // not under the mutex
    written_ = ticket;
  }
  lock.lock();
  pending_bytes_ -= weight;
  room_.notify_all();
  if (!error.empty()) fail(error, std::move(writes));
  lock.unlock();
  if (is_awaited) on_outcome_({ticket, std::move(error)});
  lock.lock();
}

std::expected<void, std::string> GroupCommit::write(const Writes& writes) {
  WriteGroup group(database_);
  for (const StoreWrite& each : writes) std::visit(group, each);
  if (durability_ == config::Durability::kAsync && !std::exchange(unsynced_, true)) {
    next_sync_ = steady_now() + kSyncPeriod;
  }
  return group.finish(durability_ == config::Durability::kFsync);
}

// [needs mutex_]
void GroupCommit::fail(std::string error, Writes writes) {
  for (StoreWrite& each : writes) {
    // Whoever wanted these accepted hears that they are not.
    if (!std::holds_alternative<AcceptBatch>(each) && !std::holds_alternative<AddJobs>(each)) {
      kept_.push_back(std::move(each));
    }
  }
  if (error_.empty()) {
    ++errors_;
    log_->error(
        "store: cannot write to {}: nothing new is accepted, what is in memory goes on; it is tried again; "
        "error=\"{}\"",
        database_.path(), error);
    next_try_ = steady_now() + pause_;
  }
  error_ = std::move(error);
  room_.notify_all();
}

// [needs mutex_, which it lets go of meanwhile]
void GroupCommit::try_again(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::expected<void, std::string> done = database_.reopen();
  if (done) {
    // Synced in any case: after a failure nothing is left to chance.
    WriteGroup group(database_);
    for (const StoreWrite& each : kept_) std::visit(group, each);
    done = group.finish(true);
  }
  std::size_t weight = 0;
  if (done) {
    keep_in_memory(kept_);
    for (const StoreWrite& each : std::exchange(kept_, {})) weight += weight_of(each);
    written_ = ticket_ - 1;
  }
  lock.lock();
  pending_bytes_ -= weight;
  if (done) {
    log_->info("store: {} can be written again: batches are accepted", database_.path());
    error_.clear();
    pause_ = kFirstPause;
    room_.notify_all();
    return;
  }
  ++errors_;
  error_ = std::move(done.error());
  pause_ = std::min(2 * pause_, kLongestPause);
  next_try_ = steady_now() + pause_;
  log_->warn("store: {} still cannot be written; next try in {} s; error=\"{}\"", database_.path(),
             std::chrono::duration_cast<std::chrono::seconds>(pause_).count(), error_);
}

void GroupCommit::keep_in_memory(const Writes& written) {
  for (const StoreWrite& each : written) {
    const auto* record = std::get_if<RecordStep>(&each);
    if (record == nullptr || record->step.rows.rows == 0) continue;
    const ResultLog::Slice& rows = record->step.rows;
    recent_.push_back({record->step.batch, rows.first_row + rows.rows, rows.size_bytes + kRecentBytes});
    recent_bytes_ += recent_.back().bytes;
  }
  for (; recent_bytes_ > kResultMemory; recent_.pop_front()) {
    const Recent& oldest = recent_.front();
    if (const std::shared_ptr<Batch> batch = oldest.batch.lock()) batch->drop_rows_before(oldest.end);
    recent_bytes_ -= oldest.bytes;
  }
}

void GroupCommit::look_at_disk() {
  next_look_ = steady_now() + kLookPeriod;
  disk_bytes_ = database_.disk_bytes();
}

}  // namespace locksley::daemon
