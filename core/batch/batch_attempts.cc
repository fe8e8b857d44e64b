#include "core/batch/batch_attempts.h"

#include <memory>
#include <utility>

#include "core/batch/batch.h"

namespace locksley {

std::uint32_t Batch::Attempts::of(std::uint64_t index) const {
  // [batch-retries] relaxed: it was set before the job was queued again, and the ring's mutex
  // orders that before the executor's claim.
  if (!batch_.has_retries_.load(std::memory_order_relaxed)) return batch_.attempt_;
  const MutexLock lock(batch_.mutex_);
  return batch_.attempt_ + batch_.retries_->of(index).failed;
}

IndexRange Batch::Attempts::with_equal_attempts(IndexRange jobs) const {
  // [batch-retries] relaxed: as in of().
  if (!batch_.has_retries_.load(std::memory_order_relaxed)) return jobs;
  const MutexLock lock(batch_.mutex_);
  return batch_.retries_->with_equal_attempts(jobs);
}

std::string Batch::Attempts::note(std::uint64_t index) const {
  // [batch-notes] relaxed: a note of an earlier attempt was made before the job was queued again,
  // and the ring's mutex orders that before the executor's claim.
  if (!batch_.has_notes_.load(std::memory_order_relaxed)) return {};
  const MutexLock lock(batch_.mutex_);
  const std::string* const found = batch_.notes_->find(index);
  return found == nullptr ? std::string() : *found;
}

IndexRange Batch::Attempts::leasable_together(IndexRange jobs) const {
  // [batch-notes] relaxed: as in note().
  if (!batch_.has_notes_.load(std::memory_order_relaxed)) return jobs;
  const MutexLock lock(batch_.mutex_);
  return batch_.notes_->leasable_together(jobs);
}

// ---- Of Batch: what changes them ----

Retries& Batch::retries() {
  if (retries_ == nullptr) {
    retries_ = std::make_unique<Retries>(static_cast<std::uint64_t>(steady_now().count()) ^
                                         reinterpret_cast<std::uintptr_t>(this));
    // [batch-retries] relaxed: as in Attempts::of().
    has_retries_.store(true, std::memory_order_relaxed);
  }
  return *retries_;
}

JobNotes& Batch::notes() {
  if (notes_ == nullptr) {
    notes_ = std::make_unique<JobNotes>();
    // [batch-notes] relaxed: as in Attempts::note().
    has_notes_.store(true, std::memory_order_relaxed);
  }
  return *notes_;
}

bool Batch::set_note(std::uint64_t index, std::string_view text) {
  const MutexLock lock(mutex_);
  // [batch-over] relaxed: written under the mutex that is held.
  if (over_.load(std::memory_order_relaxed)) return true;
  const bool has_room = may_keep_notes();
  const bool is_kept = notes().set(index, has_room ? text : std::string_view()) && (has_room || text.empty());
  charge_results();
  if (journal_ == nullptr) return is_kept;
  BatchStep step;
  step.notes.push_back({index, is_kept ? std::string(text.substr(0, JobNotes::kMostText)) : std::string()});
  record(std::move(step), {});
  return is_kept;
}

std::vector<IndexRange> Batch::take_due_retries(Nanoseconds now, std::size_t most) {
  const MutexLock lock(mutex_);
  return retries_ == nullptr ? std::vector<IndexRange>() : retries_->take_due(now, most);
}

void Batch::forgive(IndexRange jobs, std::vector<JobAttempts>& next) {
  std::vector<JobAttempts> parts;
  const std::uint32_t earlier = earlier_failures_;
  retries().visit(jobs, [&](IndexRange part, AttemptCounts attempts) {
    // Attempts that are not known any more keep their numbers.
    if (attempts.failed == 0) attempts.failed = earlier;
    ++attempts.failed;
    parts.push_back({part, {attempts.failed, attempts.failed}});
  });
  for (const JobAttempts& each : parts) {
    retries_->set(each.jobs, each.attempts);
    if (!next.empty() && next.back().jobs.high == each.jobs.low && next.back().attempts == each.attempts) {
      next.back().jobs.high = each.jobs.high;
    } else {
      next.push_back(each);
    }
  }
}

std::uint64_t Batch::failure_bytes() const {
  // [batch-over] relaxed: written under the mutex that is held. Once it is over, the queue leaves
  // the ring, and frees its ranges.
  const bool is_over = over_.load(std::memory_order_relaxed);
  return failed_.memory_bytes() + (retries_ != nullptr ? retries_->memory_bytes() : 0) +
         (notes_ != nullptr ? notes_->bytes() : 0) + (is_over ? 0 : ring_queue_.memory_bytes());
}

}  // namespace locksley
