// Failed jobs of a batch: automatic retries, and the attempts of jobs that a command queues again.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/index_ranges.h"
#include "core/batch/batch.h"
#include "core/batch/handler.h"
#include "core/batch/job_facts.h"

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

IndexRange Batch::same_attempt(IndexRange jobs) const {
  // [batch-retries] relaxed: as in attempt().
  if (!has_retries_.load(std::memory_order_relaxed)) return jobs;
  const MutexLock lock(mutex_);
  return retries_->alike(jobs);
}

std::uint64_t Batch::failure_bytes() const {
  std::size_t ranges = failed_.capacity();
  if (all_failed_ != nullptr) ranges += all_failed_->capacity();
  if (requeued_ != nullptr) ranges += requeued_->capacity();
  return ranges * sizeof(IndexRange) + superseded_.memory_bytes() +
         (retries_ != nullptr ? retries_->memory_bytes() : 0) + (notes_ != nullptr ? notes_->bytes() : 0);
}

bool Batch::publish_failures(const EndedJobs& ended, std::span<const std::byte> rows, std::uint64_t row_count,
                             std::vector<IndexRange> indexes, OnFailure on_failure, const Ran* ran) {
  std::vector<IndexRange> failed;  // in the order of completion
  std::vector<NotedJob> noted;
  std::vector<std::byte> more;
  if (ran != nullptr) rows = more = with_facts(rows, row_count, *ran);
  for_each_row(rows, row_count, [&](const ResultHead& head, std::size_t at) {
    if (!is_failure(head.status)) return;
    append_range(failed, {head.index, head.index + 1});
    if (head.has_facts == 0) return;
    const auto* text = reinterpret_cast<const char*>(rows.data() + at + sizeof head);
    const auto facts = decode_facts(head.row({text, head.length}).facts);
    if (facts && !facts->note.empty()) noted.push_back({head.index, std::string(facts->note)});
  });
  const bool has_rows = options_.keep != Keep::kNone;
  Publication publication{.ended = ended, .indexes = std::move(indexes), .failed = {}, .job_attempts = {}};
  auto prepared =
      ResultLog::prepare(has_rows ? rows : std::span<const std::byte>(), has_rows ? row_count : 0, true);
  bool too_many_failures = false;
  std::vector<IndexRange> again;
  {
    const MutexLock lock(mutex_);
    for (NotedJob& each : noted) {
      if (notes().set(each.index, each.text)) publication.notes.push_back(std::move(each));
    }
    if (options_.retries == 0 || cancelled_ || on_failure == OnFailure::kNoRetries) {
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
      prepared = ResultLog::prepare(left, left_rows, true);
    }
    too_many_failures = publish_locked(std::move(publication), std::move(prepared));
  }
  if (observer_ != nullptr && !again.empty()) {
    for_each_row(rows, row_count, [&](const ResultHead& head, std::size_t at) {
      if (!is_failure(head.status) || !contains(again, head.index)) return;
      const auto* text = reinterpret_cast<const char*>(rows.data() + at + sizeof head);
      observer_->attempt_failed(*this, head.index, head.status, head.row({text, head.length}).output);
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

void Batch::forget_attempts(const Publication& publication) {
  const auto forget = [this](std::span<const IndexRange> jobs) LOCKSLEY_REQUIRES(mutex_) {
    for (const IndexRange& range : jobs) {
      if (retries_ != nullptr) retries_->forget(range);
      if (notes_ != nullptr) notes_->forget(range);
    }
  };
  if (publication.failed.empty()) return forget(publication.indexes);
  forget(difference(sorted(publication.indexes), sorted(publication.failed)));
}

std::vector<IndexRange> Batch::take_due_retries(Nanoseconds now, std::size_t most) {
  const MutexLock lock(mutex_);
  return retries_ == nullptr ? std::vector<IndexRange>() : retries_->take_due(now, most);
}

void Batch::forgive(IndexRange jobs, std::vector<JobAttempts>& next) {
  std::vector<JobAttempts> parts;
  retries().visit(jobs, [&](IndexRange part, Attempts attempts) {
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

}  // namespace locksley
