// Jobs of a batch that failed: tried again by themselves, or queued again by hand.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/batch.h"
#include "core/handler.h"
#include "core/index_ranges.h"

namespace locksley {
namespace {

bool is_failure(JobStatus status) { return status != JobStatus::ok && status != JobStatus::cancelled; }

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
    // [batch-tries] relaxed: as in attempt().
    has_tries_.store(true, std::memory_order_relaxed);
  }
  return *retries_;
}

std::uint32_t Batch::attempt(std::uint64_t index) const {
  // [batch-tries] relaxed: it was set before the job was queued again, and the ring's mutex has ordered that
  // for whoever runs it.
  if (!has_tries_.load(std::memory_order_relaxed)) return attempt_;
  const std::lock_guard lock(mutex_);
  return attempt_ + retries_->of(index).failed;
}

std::vector<IndexRange> Batch::failed_jobs() const {
  const std::lock_guard lock(mutex_);
  return sorted(failed_);
}

bool Batch::publish_failures(const EndedJobs& ended, std::span<const std::byte> rows, std::uint64_t row_count,
                             std::vector<IndexRange> indexes) {
  std::vector<IndexRange> failed;  // in the order of completion
  for_each_row(rows, row_count, [&](const ResultHead& head, std::size_t) {
    if (is_failure(head.status)) append_range(failed, {head.index, head.index + 1});
  });
  const bool has_rows = options_.keep != Keep::none;
  Publication publication{.ended = ended, .indexes = std::move(indexes), .failed = {}, .tried = {}};
  auto prepared =
      ResultLog::prepare(has_rows ? rows : std::span<const std::byte>(), has_rows ? row_count : 0);
  bool too_many_failures = false;
  std::vector<IndexRange> again;
  {
    const std::lock_guard lock(mutex_);
    if (options_.retries == 0 || cancelled_) {
      publication.failed = std::move(failed);
    } else {
      again = try_again(failed, publication);
    }
    std::vector<std::byte> left;  // rows without those of jobs that are tried again
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
      observer_->job_tried_in_vain(*this, head.index, head.status, {text, head.length});
    });
  }
  tell();
  return too_many_failures;
}

std::vector<IndexRange> Batch::try_again(std::span<const IndexRange> failed, Publication& publication) {
  std::vector<IndexRange> again;
  std::vector<TriedJobs> tried;
  for (const IndexRange& range : failed) {
    const auto judge = [&](IndexRange jobs, Tries tries) {
      if (tries.failed - tries.forgiven >= options_.retries) {
        append_range(publication.failed, jobs);
      } else {
        ++tries.failed;
        tried.push_back({jobs, tries});
      }
    };
    if (retries_ == nullptr) {
      judge(range, Tries{});
    } else {
      retries_->visit(range, judge);
    }
  }
  if (tried.empty()) return again;
  const Nanoseconds now = steady_now();
  for (const TriedJobs& jobs : tried) {
    retries().set(jobs.jobs, jobs.tries);
    retries().wait(jobs, now);
    again.push_back(jobs.jobs);
  }
  again = sorted(std::move(again));
  retried_ += count_of(again);
  publication.tried = std::move(tried);
  return again;
}

std::vector<IndexRange> Batch::take_due_retries(Nanoseconds now) {
  const std::lock_guard lock(mutex_);
  return retries_ == nullptr ? std::vector<IndexRange>() : retries_->take_due(now);
}

std::vector<IndexRange> Batch::requeue_failed() {
  std::vector<IndexRange> again;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_ || failed_.empty()) return again;
    // Which jobs failed in a process that did not keep note of it, nobody knows.
    if (count_of(failed_) != ended_.failed()) return again;
    again = sorted(std::exchange(failed_, {}));
    BatchStep step;
    step.requeued = again;
    for (const IndexRange& range : again) {
      retries().visit(range, [&](IndexRange jobs, Tries tries) {
        ++tries.failed;
        step.tried.push_back({jobs, {tries.failed, tries.failed}});
      });
    }
    for (const TriedJobs& jobs : step.tried) retries_->set(jobs.jobs, jobs.tries);
    for (const JobStatus status : {JobStatus::error, JobStatus::timeout, JobStatus::crashed}) {
      ended_.by_status[static_cast<std::size_t>(status)] = 0;
    }
    retried_ += count_of(again);
    superseded_ = log_.rows();
    // [batch-over] relaxed: written under the mutex that is held.
    if (over_.load(std::memory_order_relaxed)) {
      // Its steps have gone, or are about to: so this one stands for them.
      const IndexRange all{0, jobs_};
      step.ended = difference({&all, 1}, again);
      step.is_base = true;
      steps_ = 0;
      finished_at_ = 0;
      // [batch-over] release: as in finish_if_over(), for the counters that go with it.
      over_.store(false, std::memory_order_release);
    }
    record(std::move(step), {});
  }
  tell();
  return again;
}

}  // namespace locksley
