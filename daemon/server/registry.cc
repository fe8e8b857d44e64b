#include "daemon/server/registry.h"

#include <utility>

#include "core/check.h"

namespace locksley::daemon {

BatchRecord* Registry::find(std::string_view id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

BatchRecord* Registry::by_sequence(std::uint64_t sequence) const {
  const auto found = by_sequence_.find(sequence);
  return found == by_sequence_.end() ? nullptr : found->second;
}

void Registry::add(std::shared_ptr<BatchRecord> record) {
  BatchRecord& added = *record;
  const bool is_new = by_id_.emplace(added.id(), std::move(record)).second;
  check(is_new, "two batches have one id");
  by_sequence_.emplace_hint(by_sequence_.end(), added.sequence, &added);
  active_.emplace_hint(active_.end(), added.sequence, &added);
  stats_.active_batches.set(active_.size());
}

bool Registry::forget(std::string_view id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->is_active) return false;
  const std::shared_ptr<BatchRecord> record = found->second;
  for (const Due kind : {Due::kDeadline, Due::kClose, Due::kForget, Due::kProgress})
    schedule(*record, kind, kNever);
  by_sequence_.erase(record->sequence);
  by_id_.erase(found);
  stats_.retained_batches.set(by_id_.size() - active_.size());
  return true;
}

void Registry::count(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes) {
  set_counts(record, record.counted_jobs + jobs, bytes);
}

void Registry::set_counts(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes) {
  queued_jobs_ += jobs - std::exchange(record.counted_jobs, jobs);
  queued_bytes_ += bytes - std::exchange(record.counted_bytes, bytes);
  stats_.queued_jobs.set(queued_jobs_);
  stats_.queued_bytes.set(queued_bytes_);
}

bool Registry::update(BatchRecord& record, const BatchStatus& status, Instant now) {
  if (!record.is_active) return false;
  if (status.state != BatchState::done && status.state != BatchState::cancelled) {
    set_counts(record, status.queued + status.running, record.counted_bytes);
    return false;
  }
  set_counts(record, 0, 0);
  record.is_active = false;
  if (record.sequence == 0) return true;
  active_.erase(record.sequence);
  for (const Due kind : {Due::kDeadline, Due::kClose, Due::kProgress}) schedule(record, kind, kNever);
  schedule(record, Due::kForget, now + record.retain);
  stats_.active_batches.set(active_.size());
  stats_.retained_batches.set(by_id_.size() - active_.size());
  return true;
}

std::uint64_t Registry::list(std::uint64_t cursor, bool active_only, std::size_t most,
                             const std::function<bool(BatchRecord&)>& visit) const {
  const auto& batches = active_only ? active_ : by_sequence_;
  auto next = cursor == 0 ? batches.end() : batches.lower_bound(cursor);
  std::uint64_t last = cursor;
  while (next != batches.begin()) {
    --next;
    if (most == 0 || !visit(*next->second)) return last;
    --most;
    last = next->first;
  }
  return 0;
}

void Registry::visit_active(const std::function<void(const BatchRecord&)>& visit) const {
  for (const auto& [sequence, record] : active_) visit(*record);
}

Instant& Registry::instant_of(BatchRecord& record, Due kind) {
  switch (kind) {
    case Due::kDeadline:
      return record.deadline_at;
    case Due::kClose:
      return record.close_at;
    case Due::kForget:
      return record.forget_at;
    case Due::kProgress:
      break;
  }
  return record.progress_at;
}

void Registry::schedule(BatchRecord& record, Due kind, Instant at) {
  Instant& scheduled = instant_of(record, kind);
  if (scheduled != kNever) due_.remove({scheduled, record.sequence, kind});
  scheduled = at;
  if (at != kNever) due_.add({at, record.sequence, kind});
}

}  // namespace locksley::daemon
