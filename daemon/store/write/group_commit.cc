#include "daemon/store/write/group_commit.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/batch/batch.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/write/write_group.h"

namespace locksley::daemon {
namespace {

constexpr Nanoseconds kSyncPeriod = std::chrono::seconds(1);  // durability: async

constexpr std::size_t kMostSpare = 2048;  // writes of a full group: some 1 MB

}  // namespace

GroupCommit::GroupCommit(Engine& engine, config::Durability durability, std::shared_ptr<spdlog::logger> log,
                         RowSizes sizes, GroupPatience patience)
    : engine_(engine),
      durability_(durability),
      log_(std::move(log)),
      queue_(sizes.in_group),
      patience_(patience),
      step_compactor_(engine, sizes.steps, sizes.merged_at_once),
      failed_ranges_(sizes.failed_ranges),
      backlog_(engine, step_compactor_, sizes.failed_ranges, log_) {}

void GroupCommit::start(std::function<void(Outcome)> on_outcome) {
  on_outcome_ = std::move(on_outcome);
  thread_ = std::thread([this] { run(); });
}

GroupCommit::~GroupCommit() { stop(); }

void GroupCommit::stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  room_.notify_all();
  thread_.join();
}

Ticket GroupCommit::put(StoreWrite&& write, Urgency urgency) {
  const bool is_urgent = urgency == Urgency::kAwaited;
  bool wakes = false;
  Ticket ticket = 0;
  {
    const MutexLock lock(mutex_);
    if (stopping_) return last_;
    pending_bytes_ += weight_of(write);
    if (queue_.is_gathering_empty()) due_ = steady_now() + kDelay;
    ticket = queue_.put(std::move(write), urgency);
    last_ = queue_.last();
    last_unstaged_ = queue_.gathering();
    last_put_ = queue_.last_put();
    const bool was_urgent = urgent_.exchange(queue_.awaited() != 0 || queue_.has_full_or_staged());
    if (queue_.has_full_or_staged()) {
      wakes = sleeping_;
    } else if (expected_ != 0) {
      wakes = sleeping_ && is_urgent && queue_.awaited() == expected_;
    } else {
      wakes = sleeping_ && (is_urgent ? !was_urgent : due_ < sleeps_until_);
    }
    if (wakes) sleeps_until_ = due_;
  }
  if (wakes) wake_.notify_one();
  return ticket;
}

void GroupCommit::wait_for_room(const Pending& callers) {
  const MutexLock lock(mutex_);
  while (!has_room(callers) && !stopping_) room_.wait(mutex_);
}

bool GroupCommit::has_room_now() const {
  const MutexLock lock(mutex_);
  return has_room(Pending());
}

bool GroupCommit::has_room(const Pending& callers) const {
  const std::size_t most = error_.empty() || catches_up_ ? kMostPending : kMostPendingWhileItFails;
  const bool has_few = callers.of_batch <= kFewPending && callers.of_user <= kFewOfUser;
  return pending_bytes_ <= most + (has_few ? kMorePending : 0);
}

std::string GroupCommit::error() const {
  const MutexLock lock(mutex_);
  return error_;
}

std::optional<Nanoseconds> GroupCommit::failing_since() const {
  const MutexLock lock(mutex_);
  return error_.empty() ? std::nullopt : std::optional(failing_since_);
}

void GroupCommit::run() {
  const ThreadRoleScope role(kStoreWriter);
  const MutexLock lock(mutex_);
  while (wait_for_work() == Woken::kByWork) {
    commit();
    await_expected();
    do_what_is_due();
  }
  // The last attempt to write the backlog, and the last groups.
  const bool was_full = backlog_.is_full();
  if (!error_.empty()) {
    do {
      retry();
    } while (catches_up_);
  }
  do {
    commit();
  } while (!queue_.empty());
  if (!backlog_.empty() && (was_full || backlog_.is_full())) backlog_.write_with_reserve();
  if (!backlog_.empty()) {
    lost_ = backlog_.size();
    LogLine("store: changes and results could not be written and are lost: their jobs will run again")
        .with("lost", backlog_.size())
        .with("store", engine_.place())
        .with("error", error_)
        .write(*log_, spdlog::level::err);
  }
}

GroupCommit::Woken GroupCommit::wait_for_work() {
  for (;;) {
    if (urgent_) return Woken::kByWork;
    if (stopping_) return Woken::kByStop;
    if (!queue_.is_gathering_empty() && steady_now() >= due_) return Woken::kByWork;
    if (do_what_is_due()) continue;
    const Nanoseconds now = steady_now();
    Nanoseconds until = Nanoseconds::max();
    if (now < expects_steps_until_) until = expects_steps_until_;
    if (!queue_.is_gathering_empty()) until = due_;
    if (!error_.empty()) until = std::min(until, backlog_.next_attempt());
    if (unsynced_ && error_.empty()) until = std::min(until, next_sync_);
    mutex_.unlock();
    const bool found = spin_.poll(true, [this] { return urgent_.load(); });
    mutex_.lock();
    if (found || urgent_ || stopping_) continue;
    if (!results_freed_.empty()) continue;
    // A write may have been put since.
    if (!queue_.is_gathering_empty() && due_ < until) continue;
    sleep_until(until);
    if (urgent_) spin_.parked();
  }
}

bool GroupCommit::do_what_is_due() {
  bool was_any = false;
  if (!results_freed_.empty()) {
    free_results_now();
    was_any = true;
  }
  if (!error_.empty() && steady_now() >= backlog_.next_attempt()) {
    retry();
    was_any = true;
  }
  if (unsynced_ && error_.empty() && steady_now() >= next_sync_) {
    sync_now();
    was_any = true;
  }
  return was_any;
}

void GroupCommit::free_results_now() {
  const auto freed = std::exchange(results_freed_, {});
  mutex_.unlock();
  recent_.free(0);
  for (const auto& done : freed) done();
  mutex_.lock();
}

void GroupCommit::sync_now() {
  mutex_.unlock();
  auto synced = engine_.sync();
  mutex_.lock();
  unsynced_ = false;
  if (!synced) fail(std::move(synced.error().what), {});
}

void GroupCommit::sleep_until(Nanoseconds instant) {
  sleeping_ = true;
  sleeps_until_ = instant;
  if (instant == Nanoseconds::max()) {
    wake_.wait(mutex_);
  } else {
    wake_.wait_until(mutex_, Instant(instant));
  }
  sleeping_ = false;
}

void GroupCommit::await_expected() {
  if (expected_ == 0) return;
  const Nanoseconds until = steady_now() + std::min(patience_.commits * last_took_, patience_.most);
  while (queue_.awaited() < expected_ && !queue_.has_full_or_staged() && !stopping_ && steady_now() < until) {
    sleep_until(until);
  }
  expected_ = 0;
}

void GroupCommit::commit() {
  auto failure = error_.empty() ? std::nullopt : std::optional(error_);
  auto group = queue_.take_first(std::exchange(spare_, {}));
  if (!group) return;
  last_ = queue_.last();
  last_unstaged_ = queue_.gathering();
  last_put_ = queue_.last_put();
  urgent_ = queue_.awaited() != 0 || queue_.has_full_or_staged();
  const bool is_awaited = group->awaited != 0;
  mutex_.unlock();
  Result result = write_group(*group, std::move(failure));
  const bool has_failed = result.failure.has_value();
  mutex_.lock();
  pending_bytes_ -= result.weight;
  room_.notify_all();
  if (result.part) {
    queue_.part_written(*result.part);
  } else if (group->part) {
    queue_.write_whole();
  }
  Writes& writes = group->writes;
  if (has_failed) fail(std::move(*result.failure), std::move(writes));
  // The clients that are answered now, and those whose writes came meanwhile.
  const std::size_t clients = group->awaited + queue_.awaited();
  const bool shares_sync = durability_ == config::Durability::kFsync;
  if (!has_failed && is_awaited && shares_sync && clients >= kManyClients && !queue_.has_full_or_staged()) {
    expected_ = clients;
  }
  if (is_awaited) expects_steps_until_ = steady_now() + kDelay;
  mutex_.unlock();
  if (is_awaited) on_outcome_({.up_to = group->ticket, .error = std::move(result.refusal)});
  // The writes are freed once the clients have been told, and while the mutex is not held. There
  // are none left if the group failed.
  writes.clear();
  if (writes.capacity() <= kMostSpare) spare_ = std::move(writes);
  mutex_.lock();
}

GroupCommit::Result GroupCommit::write_group(WriteQueue::Group& group, std::optional<std::string> failure) {
  Writes& writes = group.writes;
  WriteBacklog::Refusal refused;
  std::optional<StagedWrites::Written> ahead;
  if (!failure && (!writes.empty() || group.part)) {
    const Nanoseconds began = steady_now();
    refused = backlog_.refuse_without_room(writes, group.ticket);
    if (backlog_.is_full()) {
      failure = refused.why;
    } else {
      if (!refused.why.empty()) ++errors_;
      const bool has_room = group.part && engine_.check_room(group.part->left).has_value();
      auto written = write(writes, has_room ? &*group.part : nullptr);
      if (!written) {
        failure = std::move(written.error().what);
      } else if (has_room) {
        ahead = *written;
      }
    }
    last_took_ = steady_now() - began;
    commit_time_.observe(last_took_);
  }
  if (!failure) {
    const std::size_t weight = note_written(writes);
    written_ = group.ticket;
    return {.failure = {}, .refusal = refused.why, .weight = weight, .part = ahead};
  }
  backlog_.note_refused(writes, group.ticket);
  Result result{.failure = failure, .refusal = *failure};
  if (!backlog_.is_full()) return result;
  const bool has_deletions_only = std::ranges::all_of(writes, is_deletion);
  result.weight = backlog_.write_deletions(writes);
  if (has_deletions_only && backlog_.is_full() && !refused.has_jobs) result.refusal.clear();
  return result;
}

std::size_t GroupCommit::note_written(const Writes& writes) {
  std::size_t weight = 0;
  for (const StoreWrite& each : writes) weight += weight_of(each);
  keep_in_memory(writes);
  return weight;
}

std::expected<StagedWrites::Written, EngineError> GroupCommit::write(const Writes& writes,
                                                                     const StagedWrites::Part* part) {
  StagedWrites::Written ahead;
  WriteGroup group(engine_, step_compactor_, failed_ranges_);
  if (part != nullptr) ahead = group.add_part(*part);
  group.add_new(writes);
  if (durability_ == config::Durability::kAsync && !std::exchange(unsynced_, true)) {
    next_sync_ = steady_now() + kSyncPeriod;
  }
  const auto sync =
      durability_ == config::Durability::kFsync ? Engine::Sync::kSynced : Engine::Sync::kWritten;
  auto done = writes.empty() ? group.finish_part(sync) : group.finish(sync);
  if (!done) return std::unexpected(std::move(done.error()));
  return ahead;
}

void GroupCommit::fail(std::string error, Writes writes) {
  queue_.write_whole();
  backlog_.keep(std::move(writes));
  keeps_deletions_ = backlog_.keeps_deletions();
  if (error_.empty()) {
    ++errors_;
    failing_since_ = steady_now();
    LogLine("store: cannot write: new batches are refused, accepted ones run on; the write is retried")
        .with("store", engine_.place())
        .with("error", error)
        .write(*log_, spdlog::level::err);
    backlog_.begin_pause();
  }
  error_ = std::move(error);
  room_.notify_all();
}

void GroupCommit::retry() {
  const Ticket up_to = queue_.last_taken();
  mutex_.unlock();
  std::size_t weight = 0;
  auto written = backlog_.write_kept(weight);
  const bool is_all = written && backlog_.empty();
  if (written) {
    weight = note_written(*written);
    if (is_all) written_ = up_to;
    written->clear();  // while the mutex is not held
  }
  mutex_.lock();
  pending_bytes_ -= weight;
  keeps_deletions_ = backlog_.keeps_deletions();
  const bool caught_up_before = std::exchange(catches_up_, written && !is_all);
  if (is_all) {
    LogLine("store: can be written again: new batches are accepted")
        .with("store", engine_.place())
        .write(*log_, spdlog::level::info);
    error_.clear();
    room_.notify_all();
    mutex_.unlock();
    on_outcome_({.up_to = up_to, .error = {}, .is_of_kept_ones = true});
    mutex_.lock();
    return;
  }
  if (written) {
    error_ = fmt::format("it works again, and {} earlier writes come first", backlog_.size());
    room_.notify_all();
    if (caught_up_before) return;
    LogLine("store: can be written again: what was kept is written before new batches are accepted")
        .with("store", engine_.place())
        .with("writes", backlog_.size())
        .write(*log_, spdlog::level::info);
    return;
  }
  ++errors_;
  error_ = std::move(written.error().what);
  LogLine("store: still cannot be written")
      .with("store", engine_.place())
      .with("next_attempt_s", std::chrono::duration_cast<std::chrono::seconds>(backlog_.pause()).count())
      .with("error", error_)
      .write(*log_, spdlog::level::warn);
}

void GroupCommit::keep_in_memory(const Writes& written) {
  bool is_at_limit = false;
  for (const StoreWrite& each : written) {
    const auto* record = std::get_if<RecordStep>(&each);
    if (record == nullptr || record->step.rows.rows == 0) continue;
    const ResultLog::Rows& rows = record->step.rows;
    recent_.add(record->step.batch, rows.first_row + rows.rows, rows.size_bytes);
    if (const std::shared_ptr<Batch> batch = record->step.batch.lock()) {
      is_at_limit = is_at_limit || batch->is_at_result_limit();
    }
  }
  recent_.free(is_at_limit ? 0 : kResultMemory);
}

void GroupCommit::free_results(std::function<void()> done) {
  {
    const MutexLock lock(mutex_);
    results_freed_.push_back(std::move(done));
  }
  wake_.notify_one();
}

}  // namespace locksley::daemon
