#include "core/batch/batch_attempts.h"

#include <memory>
#include <utility>

#include "core/batch/batch.h"

namespace locksley {

std::uint32_t Batch::Attempts::of(std::uint64_t index) const {
  // [batch-retries] relaxed: it was set before the job was queued again, and the ring's mutex
  // orders that before the executor's claim.
  if (!batch_.has_attempts_.counts.load(std::memory_order_relaxed)) return batch_.attempt_;
  const MutexLock lock(batch_.mutex_);
  return batch_.attempt_ + batch_.next_attempts_.counts_of(index).failed;
}

IndexRange Batch::Attempts::with_equal_attempts(IndexRange jobs) const {
  // [batch-retries] relaxed: as in of().
  if (!batch_.has_attempts_.counts.load(std::memory_order_relaxed)) return jobs;
  const MutexLock lock(batch_.mutex_);
  return batch_.next_attempts_.with_equal_attempts(jobs);
}

std::string Batch::Attempts::note(std::uint64_t index) const {
  // [batch-notes] relaxed: a note of an earlier attempt was made before the job was queued again,
  // and the ring's mutex orders that before the executor's claim.
  if (!batch_.has_attempts_.notes.load(std::memory_order_relaxed)) return {};
  const MutexLock lock(batch_.mutex_);
  const std::string* const found = batch_.next_attempts_.note(index);
  return found == nullptr ? std::string() : *found;
}

IndexRange Batch::Attempts::leasable_together(IndexRange jobs) const {
  // [batch-notes] relaxed: as in note().
  if (!batch_.has_attempts_.notes.load(std::memory_order_relaxed)) return jobs;
  const MutexLock lock(batch_.mutex_);
  return batch_.next_attempts_.leasable_together(jobs);
}

// ---- Of Batch: what changes them ----

bool Batch::set_note(std::uint64_t index, std::string_view text) {
  const MutexLock lock(mutex_);
  // [batch-over] relaxed: written under the mutex that is held.
  if (over_.load(std::memory_order_relaxed)) return true;
  const bool is_kept = next_attempts_.set_note(index, text);
  charge_results();
  if (journal_ == nullptr) return is_kept;
  BatchStep step;
  step.notes.push_back({index, is_kept ? std::string(text.substr(0, JobNotes::kMostText)) : std::string()});
  record(std::move(step), {});
  return is_kept;
}

std::vector<IndexRange> Batch::take_due_retries(Nanoseconds now, std::size_t most) {
  const MutexLock lock(mutex_);
  return next_attempts_.take_due(now, most);
}

}  // namespace locksley
