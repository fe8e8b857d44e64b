#include "core/batch/batch_failures.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/base/index_ranges.h"

namespace locksley {

std::vector<IndexRange> Batch::Failures::jobs() const {
  constexpr std::size_t kMostRanges = 32'768;  // some 500 us
  const MutexLock lock(batch_.mutex_);
  if (batch_.failed_.is_unread() || batch_.failed_.ranges() > kMostRanges) return {{0, batch_.jobs_}};
  return batch_.failed_.all();
}

std::optional<bool> Batch::Failures::has(std::uint64_t index) const {
  const MutexLock lock(batch_.mutex_);
  if (batch_.failed_.is_unread() || batch_.failed_.list().size() > kMostScattered) return std::nullopt;
  return batch_.failed_.has(index);
}

std::uint64_t Batch::Failures::charged_bytes() const {
  const MutexLock lock(batch_.mutex_);
  return batch_.failure_charge_.bytes();
}

bool Batch::Failures::lacks_list() const {
  const MutexLock lock(batch_.mutex_);
  return batch_.failed_.is_unread();
}

bool Batch::Failures::set_list(std::shared_ptr<const std::vector<IndexRange>> ranges, std::uint64_t jobs) {
  const MutexLock lock(batch_.mutex_);
  if (!batch_.failed_.set_list(std::move(ranges), jobs)) return false;
  batch_.charge_results();
  return true;
}

void Batch::Failures::leave_out_list() {
  const MutexLock lock(batch_.mutex_);
  batch_.failed_.leave_out_list();
  batch_.charge_results();
}

bool Batch::Failures::may_requeue() const {
  // If an earlier process did not record which jobs had failed, they cannot be queued again.
  return !batch_.cancelled_ && batch_.failed_.requeue() == nullptr && batch_.failed_.count() != 0 &&
         !batch_.failed_.is_unread() && batch_.failed_.count() == batch_.ended_.failed();
}

Batch::Failures::Requeue Batch::Failures::begin_requeue() {
  const MutexLock lock(batch_.mutex_);
  if (!may_requeue()) return {};
  batch_.failed_.begin_requeue(batch_.log_.rows());
  return reopen();
}

Batch::Failures::Requeue Batch::Failures::begin_requeue(std::span<const IndexRange> some) {
  const MutexLock lock(batch_.mutex_);
  if (!may_requeue()) return {};
  batch_.failed_.begin_requeue(some, batch_.log_.rows());
  return reopen();
}

Batch::Failures::Requeue Batch::Failures::reopen() {
  // [batch-over] relaxed: written under the mutex that is held.
  batch_.was_over_ = batch_.over_.load(std::memory_order_relaxed);
  if (batch_.was_over_) {
    batch_.finished_at_ = 0;
    // [batch-over] release: as in announce_end(), for the counters that change with it.
    batch_.over_.store(false, std::memory_order_release);
  }
  batch_.is_charged_ = true;
  batch_.charge_results();
  const FailedJobs::Requeue& begun = *batch_.failed_.requeue();
  return {begun.count, begun.jobs->size()};
}

Batch::Failures::RequeueCheck Batch::Failures::check_requeue(std::span<const IndexRange> some) const {
  using Answer = RequeueCheck::Answer;
  const MutexLock lock(batch_.mutex_);
  if (batch_.failed_.list().size() > kMostScattered ||
      batch_.failed_.superseded().ranges() + 2 * some.size() > kMostSuperseded) {
    return {Answer::kTooScattered};
  }
  if (const auto job = batch_.failed_.first_missing(some)) return {Answer::kNotFailed, *job};
  return {};
}

std::vector<IndexRange> Batch::Failures::requeue() {
  FailedJobs::SharedRanges requeued;  // the last reference is not dropped under the mutex
  std::uint64_t jobs = 0;
  BatchStep step;
  bool are_all = false;
  {
    const MutexLock lock(batch_.mutex_);
    const FailedJobs::Requeue* const begun = batch_.failed_.requeue();
    if (begun == nullptr) return {};
    requeued = begun->jobs;
    are_all = begun->are_all;
    jobs = batch_.jobs_;
    step.is_base = batch_.was_over_;
  }
  std::vector<IndexRange> again = sorted(*requeued);
  step.requeued = again;
  // The journal has dropped the steps of a batch that was over, or is about to: so this step
  // replaces them.
  if (step.is_base) {
    const IndexRange all{0, jobs};
    step.ended = difference({&all, 1}, again);
  }
  // If all failed jobs of a batch that was over are queued again, the jobs between them have ended
  // for good.
  forgive(again, step.is_base && are_all ? Between::kEnded : Between::kMayRun, step);
  end_requeue(std::move(step));
  batch_.notify_observer();
  return again;
}

void Batch::Failures::forgive(std::span<const IndexRange> jobs, Between between, BatchStep& step) {
  constexpr std::size_t kAtOnce = 256;  // some 100 us with the mutex
  constexpr auto kLongWithMutex = std::chrono::microseconds(20);
  constexpr auto kPause = std::chrono::microseconds(100);
  for (std::size_t at = 0; at < jobs.size(); at += kAtOnce) {
    const std::size_t end = std::min(at + kAtOnce, jobs.size());
    const Nanoseconds began = steady_now();
    {
      const MutexLock lock(batch_.mutex_);
      if (between == Between::kEnded) {
        // The attempts of the jobs between may be changed, too: mostly this is one range for all.
        batch_.next_attempts_.forgive({jobs[at].low, end < jobs.size() ? jobs[end].low : jobs.back().high},
                                      step.job_attempts);
      } else {
        for (std::size_t i = at; i < end; ++i) batch_.next_attempts_.forgive(jobs[i], step.job_attempts);
      }
    }
    // Threads that wait for the mutex get it now.
    if (end < jobs.size() && steady_now() - began > kLongWithMutex) std::this_thread::sleep_for(kPause);
  }
}

void Batch::Failures::end_requeue(BatchStep step) {
  const MutexLock lock(batch_.mutex_);
  // Which status each of the jobs had is no longer known; the sum is right.
  std::uint64_t left = batch_.failed_.end_requeue();
  batch_.retried_ += left;
  for (const JobStatus status : {JobStatus::kError, JobStatus::kTimeout, JobStatus::kCrashed}) {
    std::uint64_t& ended = batch_.ended_.by_status[static_cast<std::size_t>(status)];
    const std::uint64_t taken = std::min(ended, left);
    ended -= taken;
    left -= taken;
  }
  ++batch_.retry_rounds_;
  if (step.is_base) {
    batch_.steps_ = 0;
    step.failed = batch_.failed_.all();
  }
  if (const auto& rows = batch_.failed_.superseded().jobs; rows != nullptr) step.superseded_jobs = *rows;
  batch_.charge_results();
  batch_.record(std::move(step), {});
}

}  // namespace locksley
