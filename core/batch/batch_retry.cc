// Failed jobs of a batch: automatic retries, and jobs that a command queues again.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/index_ranges.h"
#include "core/batch/batch.h"
#include "core/batch/handler.h"

namespace locksley {
namespace {

bool is_failure(JobStatus status) { return status != JobStatus::kOk && status != JobStatus::kCancelled; }

// Calls visit(head, its place) for each row.
template <class Visit>
void for_each_row(std::span<const std::byte> rows, std::uint64_t row_count, Visit visit) {
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < row_count; ++i) {
    ResultHead head;
    std::memcpy(&head, rows.data() + at, sizeof head);
    visit(head, at);
    at += ResultHead::bytes_of(head.length);
  }
}

}  // namespace

Retries& Batch::retries() {
  if (retries_ == nullptr) {
    retries_ = std::make_unique<Retries>(static_cast<std::uint64_t>(steady_now().count()) ^
                                         reinterpret_cast<std::uintptr_t>(this));
    // [batch-retries] relaxed: as in attempt().
    has_retries_.store(true, std::memory_order_relaxed);
  }
  return *retries_;
}

std::uint32_t Batch::attempt(std::uint64_t index) const {
  // [batch-retries] relaxed: it was set before the job was queued again, and the ring's mutex
  // orders that before the executor's claim.
  if (!has_retries_.load(std::memory_order_relaxed)) return attempt_;
  const MutexLock lock(mutex_);
  return attempt_ + retries_->of(index).failed;
}

std::vector<IndexRange> Batch::failed_jobs() const {
  const MutexLock lock(mutex_);
  return sorted(failed_);
}

bool Batch::publish_failures(const EndedJobs& ended, std::span<const std::byte> rows, std::uint64_t row_count,
                             std::vector<IndexRange> indexes) {
  std::vector<IndexRange> failed;  // in the order of completion
  for_each_row(rows, row_count, [&](const ResultHead& head, std::size_t) {
    if (is_failure(head.status)) append_range(failed, {head.index, head.index + 1});
  });
  const bool has_rows = options_.keep != Keep::kNone;
  Publication publication{.ended = ended, .indexes = std::move(indexes), .failed = {}, .job_attempts = {}};
  auto prepared =
      ResultLog::prepare(has_rows ? rows : std::span<const std::byte>(), has_rows ? row_count : 0);
  bool too_many_failures = false;
  std::vector<IndexRange> again;
  {
    const MutexLock lock(mutex_);
    if (options_.retries == 0 || cancelled_) {
      publication.failed = std::move(failed);
    } else {
      again = schedule_retries(failed, publication);
    }
    std::vector<std::byte> left;  // rows without those of jobs that are retried
    if (!again.empty()) {
      std::uint64_t left_rows = 0;
      for_each_row(rows, row_count, [&](const ResultHead& head, std::size_t at) {
        if (is_failure(head.status) && contains(again, head.index)) {
          --publication.ended.by_status[static_cast<std::size_t>(head.status)];
        } else if (has_rows) {
          const auto row = rows.subspan(at, ResultHead::bytes_of(head.length));
          left.insert(left.end(), row.begin(), row.end());
          ++left_rows;
        }
      });
      publication.indexes = difference(sorted(std::move(publication.indexes)), again);
      prepared = ResultLog::prepare(left, left_rows);
    }
    too_many_failures = publish_locked(std::move(publication), std::move(prepared));
  }
  if (observer_ != nullptr && !again.empty()) {
    for_each_row(rows, row_count, [&](const ResultHead& head, std::size_t at) {
      if (!is_failure(head.status) || !contains(again, head.index)) return;
      const auto* text = reinterpret_cast<const char*>(rows.data() + at + sizeof head);
      observer_->attempt_failed(*this, head.index, head.status, {text, head.length});
    });
  }
  notify_observer();
  return too_many_failures;
}

std::vector<IndexRange> Batch::schedule_retries(std::span<const IndexRange> failed,
                                                Publication& publication) {
  std::vector<IndexRange> again;
  std::vector<JobAttempts> job_attempts;
  for (const IndexRange& range : failed) {
    const auto judge = [&](IndexRange jobs, Attempts attempts) {
      if (attempts.failed - attempts.forgiven >= options_.retries) {
        append_range(publication.failed, jobs);
      } else {
        ++attempts.failed;
        job_attempts.push_back({jobs, attempts});
      }
    };
    if (retries_ == nullptr) {
      judge(range, Attempts{});
    } else {
      retries_->visit(range, judge);
    }
  }
  if (job_attempts.empty()) return again;
  const Nanoseconds now = steady_now();
  for (const JobAttempts& jobs : job_attempts) {
    retries().set(jobs.jobs, jobs.attempts);
    retries().schedule(jobs, now);
    again.push_back(jobs.jobs);
  }
  again = sorted(std::move(again));
  retried_ += count_of(again);
  publication.job_attempts = std::move(job_attempts);
  return again;
}

std::vector<IndexRange> Batch::take_due_retries(Nanoseconds now) {
  const MutexLock lock(mutex_);
  return retries_ == nullptr ? std::vector<IndexRange>() : retries_->take_due(now);
}

std::vector<IndexRange> Batch::requeue_failed() {
  std::vector<IndexRange> again;
  {
    const MutexLock lock(mutex_);
    if (cancelled_ || failed_.empty()) return again;
    // If an earlier process did not record which jobs had failed, they cannot be queued again.
    if (count_of(failed_) != ended_.failed()) return again;
    again = sorted(std::exchange(failed_, {}));
    BatchStep step;
    step.requeued = again;
    for (const IndexRange& range : again) {
      retries().visit(range, [&](IndexRange jobs, Attempts attempts) {
        ++attempts.failed;
        step.job_attempts.push_back({jobs, {attempts.failed, attempts.failed}});
      });
    }
    for (const JobAttempts& jobs : step.job_attempts) retries_->set(jobs.jobs, jobs.attempts);
    for (const JobStatus status : {JobStatus::kError, JobStatus::kTimeout, JobStatus::kCrashed}) {
      ended_.by_status[static_cast<std::size_t>(status)] = 0;
    }
    retried_ += count_of(again);
    superseded_ = log_.rows();
    // [batch-over] relaxed: written under the mutex that is held.
    if (over_.load(std::memory_order_relaxed)) {
      // The journal has dropped its steps, or is about to: so this step replaces them.
      const IndexRange all{0, jobs_};
      step.ended = difference({&all, 1}, again);
      step.is_base = true;
      steps_ = 0;
      finished_at_ = 0;
      // [batch-over] release: as in announce_end(), for the counters that change with it.
      over_.store(false, std::memory_order_release);
    }
    record(std::move(step), {});
  }
  notify_observer();
  return again;
}

}  // namespace locksley
