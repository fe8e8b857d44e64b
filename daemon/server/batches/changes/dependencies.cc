#include "daemon/server/batches/changes/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/server/batches/changes/batch_changes.h"
#include "daemon/server/batches/stored/stored_batches.h"
#include "daemon/server/records/lookup.h"
#include "daemon/server/records/refusals.h"
#include "daemon/server/records/registry.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {

namespace {

// How long the end of one batch may work before the next poll; the rest is done in slices.
constexpr std::chrono::microseconds kTimeAtOnce{200};

bool is_all_ok(const BatchStatus& status) {
  return status.state == BatchState::kDone && status.ok == status.jobs;
}

// By sequence, each once. A batch may be named in several ways, such as `a` and `user/a`: the
// stricter condition counts.
void wait_once_for_each(std::vector<Wait>& waits) {
  std::ranges::sort(waits, {}, [](const Wait& wait) { return std::pair(wait.sequence, !wait.only_if_ok); });
  const auto repeated = std::ranges::unique(waits, {}, &Wait::sequence);
  waits.erase(repeated.begin(), repeated.end());
}

std::string reason_not_ok(std::string_view id) {
  return fmt::format("not every job of the batch '{}' was ok", id);
}

// Adds the found batch to the condition, if the new batch must wait for it. False: the store has
// refused the found batch since it was looked up, so it counts as unknown.
bool add_wait(StartCondition& condition, const proto::AfterBatch& after,
              const FoundDependencies::Found& found) LOCKSLEY_REQUIRES(kIoThread) {
  const BatchRecord* const unfinished = found.unfinished.get();
  if (unfinished != nullptr && unfinished->stored.is_rejected) return false;
  if (unfinished == nullptr || unfinished->is_over()) {
    const bool is_ok = unfinished == nullptr ? found.is_all_ok : is_all_ok(unfinished->status());
    if (!after.only_if_ok || is_ok) return true;
    condition.broken = reason_not_ok(after.id);
  }
  condition.waits.all.push_back({found.sequence, after.id, after.only_if_ok});
  return true;
}

}  // namespace

std::expected<FoundDependencies::Found, std::string> Dependencies::look_up(const User& by,
                                                                           const proto::AfterBatch& after) {
  const auto found = find_batch(registry_, by, after.id);
  if (!found) return std::unexpected(found.error());
  if (*found == nullptr) return std::unexpected(no_such_batch(after.id));
  BatchRecord& other = **found;
  if (other.stored.is_rejected) return std::unexpected(no_such_batch(after.id));
  if (!other.is_over())
    return FoundDependencies::Found{.sequence = other.sequence, .unfinished = other.shared()};
  return FoundDependencies::Found{.sequence = other.sequence,
                                  .is_all_ok = after.only_if_ok && is_all_ok(other.status())};
}

bool Dependencies::look_up_next(const User& by, const proto::BatchOptions& options,
                                FoundDependencies& found) {
  if (found.all.size() == options.after.size() || !found.error.empty()) return false;
  auto next = look_up(by, options.after[found.all.size()]);
  if (!next) {
    found.error = std::move(next.error());
    return false;
  }
  found.all.push_back(*std::move(next));
  return true;
}

std::expected<StartCondition, std::string> Dependencies::resolve(const User& by,
                                                                 const proto::BatchOptions& options,
                                                                 const FoundDependencies* found) {
  StartCondition condition{.delay = options.delay, .waits = {}, .broken = {}};
  if (options.after.empty()) return condition;
  const std::size_t found_before = found == nullptr ? 0 : found->all.size();
  for (std::size_t i = 0; i < options.after.size(); ++i) {
    const proto::AfterBatch& after = options.after[i];
    if (i < found_before) {
      if (!add_wait(condition, after, found->all[i])) return std::unexpected(no_such_batch(after.id));
      continue;
    }
    if (found != nullptr && !found->error.empty()) return std::unexpected(found->error);
    const auto looked_up = look_up(by, after);
    if (!looked_up) return std::unexpected(looked_up.error());
    add_wait(condition, after, *looked_up);
  }
  wait_once_for_each(condition.waits.all);
  condition.waits.unsatisfied = condition.waits.all.size();
  condition.waits.were_any = !condition.waits.all.empty();
  return condition;
}

StartCondition Dependencies::resolve_restored(const AcceptedRow& row, bool is_cancelled,
                                              const ChangesRow& changes) {
  StartCondition condition;
  condition.waits.were_any = !row.after.empty();
  if (changes.is_released || is_cancelled) return condition;
  for (std::size_t i = 0; i < row.after.size(); ++i) {
    const AcceptedRow::After& after = row.after[i];
    Wait wait{after.sequence, after.id, after.only_if_ok, changes.is_satisfied(i)};
    if (!wait.is_satisfied) {
      // A batch that cannot be read counts as missing.
      const BatchRecord* const other = registry_.find(after.sequence).value_or(nullptr);
      if (other == nullptr) {
        // A stored batch is forgotten only after its dependents were notified of its end. So this
        // one was in memory alone, or the store has refused it.
        if (after.only_if_ok)
          condition.broken =
              fmt::format("the batch '{}' went with the daemon's memory, or was refused", after.id);
        wait.is_satisfied = !after.only_if_ok;
      } else if (other->is_over()) {
        if (after.only_if_ok && !is_all_ok(other->status())) condition.broken = reason_not_ok(after.id);
        wait.is_satisfied = !after.only_if_ok || is_all_ok(other->status());
      }
    }
    if (!wait.is_satisfied) ++condition.waits.unsatisfied;
    condition.waits.all.push_back(std::move(wait));
  }
  return condition;
}

void Dependencies::hold(BatchRecord& record, StartCondition condition, Instant start_at) {
  if (condition.delay) {
    record.set_hold(Hold::kDelay);
    registry_.schedule(record, Due::kStart, start_at);
  }
  record.waits = std::move(condition.waits);
  if (record.waits.unsatisfied == 0) return;
  record.set_hold(Hold::kBatches);
  if (!condition.broken.empty()) return;
  for (const Wait& wait : record.waits.all) {
    if (!wait.is_satisfied) dependents_of_[wait.sequence].insert(record.sequence);
  }
}

void Dependencies::remove(std::uint64_t dependency, std::uint64_t dependent) {
  const auto found = dependents_of_.find(dependency);
  if (found == dependents_of_.end()) return;
  found->second.erase(dependent);
  if (found->second.empty()) dependents_of_.erase(found);
}

void Dependencies::batch_ended(BatchRecord& record, const BatchStatus& status) {
  for (const Wait& wait : record.waits.all) {
    if (!wait.is_satisfied) remove(wait.sequence, record.sequence);
  }
  record.waits.all = {};
  record.waits.unsatisfied = 0;
  const auto found = dependents_of_.find(record.sequence);
  if (found == dependents_of_.end()) return;
  Ended ended{.sequence = record.sequence,
              .id = record.id(),
              .is_all_ok = is_all_ok(status),
              .is_rejected = record.stored.is_rejected,
              .dependents = std::move(found->second)};
  dependents_of_.erase(found);
  if (notify(ended, now() + kTimeAtOnce)) return;
  const auto left = notifying_.emplace(record.sequence, std::move(ended));
  auto notify_others = [this, left](Instant until) {
    kIoThread.assert_held();
    if (!notify(left->second, until)) return false;
    const std::uint64_t sequence = left->first;
    notifying_.erase(left);
    if (on_all_told_ && !is_notifying(sequence)) on_all_told_(sequence);
    return true;
  };
  slices_.add(std::move(notify_others), record.line);
}

bool Dependencies::is_notifying(std::uint64_t sequence) const { return notifying_.contains(sequence); }

bool Dependencies::notify(Ended& ended, Instant until) {
  while (!ended.dependents.empty()) {
    const std::uint64_t sequence = *ended.dependents.begin();
    ended.dependents.erase(ended.dependents.begin());
    // The dependent may have been cancelled and forgotten since.
    BatchRecord* const dependent = registry_.by_sequence(sequence);
    if (dependent != nullptr && !dependent->is_over()) notify(ended, *dependent);
    if (now() >= until) return ended.dependents.empty();
  }
  return true;
}

void Dependencies::notify(const Ended& ended, BatchRecord& dependent) {
  auto& waits = dependent.waits;
  Account& owner = registry_.tenant_of(dependent).account;
  bool is_told = true;
  // A batch of an earlier version may wait for it twice.
  for (Wait& wait : std::ranges::equal_range(waits.all, ended.sequence, {}, &Wait::sequence)) {
    if (wait.is_satisfied) continue;
    if (ended.is_rejected) {
      changes_.cancel(dependent, owner, fmt::format("the batch '{}' was refused", ended.id));
      return;
    }
    if (wait.only_if_ok && !ended.is_all_ok) {
      changes_.cancel(dependent, owner, reason_not_ok(ended.id));
      return;
    }
    wait.is_satisfied = true;
    --waits.unsatisfied;
    is_told = false;
  }
  if (is_told) return;
  if (waits.unsatisfied == 0) dependent.lane->release(dependent, Hold::kBatches);
  stored_.write_changes(dependent, owner);
}

}  // namespace locksley::daemon
