// Failed jobs of a batch: automatic retries, and jobs that a command queues again.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
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

std::vector<IndexRange> Batch::failed_jobs() const {
  constexpr std::size_t kMostRanges = 32'768;  // some 500 us
  const MutexLock lock(mutex_);
  if (failed_unread_) return {{0, jobs_}};
  std::size_t ranges = failed_.size();
  for (const auto& more : {all_failed_, requeued_}) ranges += more != nullptr ? more->size() : 0;
  if (ranges > kMostRanges) return {{0, jobs_}};
  std::vector<IndexRange> all = failed_;
  for (const auto& more : {all_failed_, requeued_}) {
    if (more != nullptr) all.insert(all.end(), more->begin(), more->end());
  }
  return sorted(std::move(all));
}

std::optional<bool> Batch::has_failed(std::uint64_t index) const {
  const auto is_in = [index](std::span<const IndexRange> ranges) {
    return std::ranges::any_of(
        ranges, [index](const IndexRange& range) { return index >= range.low && index < range.high; });
  };
  const MutexLock lock(mutex_);
  const std::span<const IndexRange> more =
      all_failed_ != nullptr ? std::span(*all_failed_) : std::span<IndexRange>();
  if (failed_unread_ || failed_.size() + more.size() > kMostScattered) return std::nullopt;
  return is_in(failed_) || is_in(more);
}

std::uint64_t Batch::failure_bytes() const {
  std::size_t ranges = failed_.capacity();
  if (all_failed_ != nullptr) ranges += all_failed_->capacity();
  if (requeued_ != nullptr) ranges += requeued_->capacity();
  return ranges * sizeof(IndexRange) + superseded_.memory_bytes() +
         (retries_ != nullptr ? retries_->memory_bytes() : 0) + (notes_ != nullptr ? notes_->bytes() : 0);
}

bool Batch::lacks_failed_jobs() const {
  const MutexLock lock(mutex_);
  return failed_unread_;
}

bool Batch::set_failed_jobs(std::shared_ptr<const std::vector<IndexRange>> ranges, std::uint64_t jobs) {
  const MutexLock lock(mutex_);
  if (!failed_unread_ || jobs != failed_jobs_) return false;
  failed_unread_ = false;
  all_failed_ = std::move(ranges);
  charge_results();
  return true;
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

bool Batch::may_requeue() const {
  // If an earlier process did not record which jobs had failed, they cannot be queued again.
  return !cancelled_ && requeued_ == nullptr && failed_jobs_ != 0 && !failed_unread_ &&
         failed_jobs_ == ended_.failed();
}

Batch::Requeue Batch::take_requeued(std::shared_ptr<const std::vector<IndexRange>> jobs,
                                    std::uint64_t count) {
  requeued_ = std::move(jobs);
  requeued_jobs_ = count;
  failed_jobs_ -= count;
  // [batch-over] relaxed: written under the mutex that is held.
  requeues_from_end_ = over_.load(std::memory_order_relaxed);
  if (requeues_from_end_) {
    finished_at_ = 0;
    // [batch-over] release: as in announce_end(), for the counters that change with it.
    over_.store(false, std::memory_order_release);
  }
  return {requeued_jobs_, requeued_->size()};
}

Batch::Requeue Batch::begin_requeue() {
  const MutexLock lock(mutex_);
  if (!may_requeue()) return {};
  next_superseded_.add_all(log_.rows());
  requeues_some_ = false;
  return take_requeued(all_failed_ != nullptr
                           ? std::exchange(all_failed_, nullptr)
                           : std::make_shared<const std::vector<IndexRange>>(std::exchange(failed_, {})),
                       failed_jobs_);
}

Batch::RequeueCheck Batch::check_requeue(std::span<const IndexRange> some) const {
  using Answer = RequeueCheck::Answer;
  const MutexLock lock(mutex_);
  const std::span<const IndexRange> failed = all_failed_ != nullptr ? std::span(*all_failed_) : failed_;
  if (failed.size() > kMostScattered || superseded_.ranges() + 2 * some.size() > kMostSuperseded) {
    return {Answer::kTooScattered};
  }
  std::vector<IndexRange> found;
  for (const IndexRange& range : failed) {
    for (const IndexRange& wanted : overlapping(some, range)) {
      found.push_back({std::max(wanted.low, range.low), std::min(wanted.high, range.high)});
    }
  }
  const std::vector<IndexRange> others = difference(some, sorted(std::move(found)));
  if (!others.empty()) return {Answer::kNotFailed, others.front().low};
  return {};
}

Batch::Requeue Batch::begin_requeue(std::span<const IndexRange> some) {
  const MutexLock lock(mutex_);
  if (!may_requeue()) return {};
  std::vector<IndexRange> left;
  const auto leave = [&](std::span<const IndexRange> failed) {
    for (const IndexRange& range : failed) {
      for (const IndexRange& rest : difference({&range, 1}, overlapping(some, range))) left.push_back(rest);
    }
  };
  if (all_failed_ != nullptr) leave(*all_failed_);
  leave(failed_);
  all_failed_ = nullptr;
  failed_ = std::move(left);
  next_superseded_ = superseded_;
  next_superseded_.add(some, log_.rows());
  requeues_some_ = true;
  return take_requeued(std::make_shared<const std::vector<IndexRange>>(some.begin(), some.end()),
                       count_of(some));
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

std::vector<IndexRange> Batch::requeue() {
  constexpr std::size_t kAtOnce = 256;  // some 100 us with the mutex
  constexpr auto kLongWithMutex = std::chrono::microseconds(20);
  constexpr auto kPause = std::chrono::microseconds(100);
  BatchStep step;
  std::shared_ptr<const std::vector<IndexRange>> failed;
  std::uint64_t jobs = 0;
  bool is_base = false;
  bool are_some = false;
  {
    const MutexLock lock(mutex_);
    if (requeued_ == nullptr) return {};
    failed = requeued_;
    jobs = jobs_;
    is_base = requeues_from_end_;
    are_some = requeues_some_;
  }
  std::vector<IndexRange> again = sorted(*failed);
  step.requeued = again;
  // The journal has dropped the steps of a batch that was over, or is about to: so this step replaces them.
  if (is_base) {
    const IndexRange all{0, jobs};
    step.ended = difference({&all, 1}, again);
    step.is_base = true;
  }
  for (std::size_t at = 0; at < again.size(); at += kAtOnce) {
    const std::size_t end = std::min(at + kAtOnce, again.size());
    const Nanoseconds began = steady_now();
    {
      const MutexLock lock(mutex_);
      if (is_base && !are_some) {
        // The jobs between them have ended for good, so their attempts may be changed, too: mostly this is one
        // range for all.
        forgive({again[at].low, end < again.size() ? again[end].low : again.back().high}, step.job_attempts);
      } else {
        for (std::size_t i = at; i < end; ++i) forgive(again[i], step.job_attempts);
      }
    }
    // Threads that wait for the mutex get it now.
    if (end < again.size() && steady_now() - began > kLongWithMutex) std::this_thread::sleep_for(kPause);
  }
  {
    const MutexLock lock(mutex_);
    // Which status each of them had is no longer known; the sum is right.
    std::uint64_t left = std::exchange(requeued_jobs_, 0);
    retried_ += left;
    for (const JobStatus status : {JobStatus::kError, JobStatus::kTimeout, JobStatus::kCrashed}) {
      std::uint64_t& ended = ended_.by_status[static_cast<std::size_t>(status)];
      const std::uint64_t taken = std::min(ended, left);
      ended -= taken;
      left -= taken;
    }
    requeued_ = nullptr;  // `failed` outlives the lock
    superseded_ = std::exchange(next_superseded_, {});
    ++retry_rounds_;
    if (is_base) {
      steps_ = 0;
      step.failed = sorted(failed_);
    }
    if (superseded_.jobs != nullptr) step.superseded_jobs = *superseded_.jobs;
    charge_results();
    record(std::move(step), {});
  }
  notify_observer();
  return again;
}

}  // namespace locksley
