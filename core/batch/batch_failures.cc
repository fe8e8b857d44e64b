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
  if (batch_.failed_unread_) return {{0, batch_.jobs_}};
  std::size_t ranges = batch_.failed_.size();
  for (const auto& more : {batch_.all_failed_, batch_.requeued_})
    ranges += more != nullptr ? more->size() : 0;
  if (ranges > kMostRanges) return {{0, batch_.jobs_}};
  std::vector<IndexRange> all = batch_.failed_;
  for (const auto& more : {batch_.all_failed_, batch_.requeued_}) {
    if (more != nullptr) all.insert(all.end(), more->begin(), more->end());
  }
  return sorted(std::move(all));
}

std::optional<bool> Batch::Failures::has(std::uint64_t index) const {
  const auto is_in = [index](std::span<const IndexRange> ranges) {
    return std::ranges::any_of(
        ranges, [index](const IndexRange& range) { return index >= range.low && index < range.high; });
  };
  const MutexLock lock(batch_.mutex_);
  const std::span<const IndexRange> more =
      batch_.all_failed_ != nullptr ? std::span(*batch_.all_failed_) : std::span<IndexRange>();
  if (batch_.failed_unread_ || batch_.failed_.size() + more.size() > kMostScattered) return std::nullopt;
  return is_in(batch_.failed_) || is_in(more);
}

bool Batch::Failures::lacks_list() const {
  const MutexLock lock(batch_.mutex_);
  return batch_.failed_unread_;
}

bool Batch::Failures::set_list(std::shared_ptr<const std::vector<IndexRange>> ranges, std::uint64_t jobs) {
  const MutexLock lock(batch_.mutex_);
  if (!batch_.failed_unread_ || jobs != batch_.failed_jobs_) return false;
  batch_.failed_unread_ = false;
  batch_.all_failed_ = std::move(ranges);
  batch_.charge_results();
  return true;
}

bool Batch::Failures::may_requeue() const {
  // If an earlier process did not record which jobs had failed, they cannot be queued again.
  return !batch_.cancelled_ && batch_.requeued_ == nullptr && batch_.failed_jobs_ != 0 &&
         !batch_.failed_unread_ && batch_.failed_jobs_ == batch_.ended_.failed();
}

Batch::Failures::Requeue Batch::Failures::take_requeued(std::shared_ptr<const std::vector<IndexRange>> jobs,
                                                        std::uint64_t count) {
  batch_.requeued_ = std::move(jobs);
  batch_.requeued_jobs_ = count;
  batch_.failed_jobs_ -= count;
  // [batch-over] relaxed: written under the mutex that is held.
  batch_.requeues_from_end_ = batch_.over_.load(std::memory_order_relaxed);
  if (batch_.requeues_from_end_) {
    batch_.finished_at_ = 0;
    // [batch-over] release: as in announce_end(), for the counters that change with it.
    batch_.over_.store(false, std::memory_order_release);
  }
  return {batch_.requeued_jobs_, batch_.requeued_->size()};
}

Batch::Failures::Requeue Batch::Failures::begin_requeue() {
  const MutexLock lock(batch_.mutex_);
  if (!may_requeue()) return {};
  batch_.next_superseded_.add_all(batch_.log_.rows());
  batch_.requeues_some_ = false;
  return take_requeued(batch_.all_failed_ != nullptr ? std::exchange(batch_.all_failed_, nullptr)
                                                     : std::make_shared<const std::vector<IndexRange>>(
                                                           std::exchange(batch_.failed_, {})),
                       batch_.failed_jobs_);
}

Batch::Failures::RequeueCheck Batch::Failures::check_requeue(std::span<const IndexRange> some) const {
  using Answer = RequeueCheck::Answer;
  const MutexLock lock(batch_.mutex_);
  const std::span<const IndexRange> failed =
      batch_.all_failed_ != nullptr ? std::span(*batch_.all_failed_) : batch_.failed_;
  if (failed.size() > kMostScattered || batch_.superseded_.ranges() + 2 * some.size() > kMostSuperseded) {
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

Batch::Failures::Requeue Batch::Failures::begin_requeue(std::span<const IndexRange> some) {
  const MutexLock lock(batch_.mutex_);
  if (!may_requeue()) return {};
  std::vector<IndexRange> left;
  const auto leave = [&](std::span<const IndexRange> failed) {
    for (const IndexRange& range : failed) {
      for (const IndexRange& rest : difference({&range, 1}, overlapping(some, range))) left.push_back(rest);
    }
  };
  if (batch_.all_failed_ != nullptr) leave(*batch_.all_failed_);
  leave(batch_.failed_);
  batch_.all_failed_ = nullptr;
  batch_.failed_ = std::move(left);
  batch_.next_superseded_ = batch_.superseded_;
  batch_.next_superseded_.add(some, batch_.log_.rows());
  batch_.requeues_some_ = true;
  return take_requeued(std::make_shared<const std::vector<IndexRange>>(some.begin(), some.end()),
                       count_of(some));
}

std::vector<IndexRange> Batch::Failures::requeue() {
  std::shared_ptr<const std::vector<IndexRange>> failed;
  std::uint64_t jobs = 0;
  BatchStep step;
  bool are_all = false;
  {
    const MutexLock lock(batch_.mutex_);
    if (batch_.requeued_ == nullptr) return {};
    failed = batch_.requeued_;
    jobs = batch_.jobs_;
    step.is_base = batch_.requeues_from_end_;
    are_all = !batch_.requeues_some_;
  }
  std::vector<IndexRange> again = sorted(*failed);
  step.requeued = again;
  // The journal has dropped the steps of a batch that was over, or is about to: so this step replaces them.
  if (step.is_base) {
    const IndexRange all{0, jobs};
    step.ended = difference({&all, 1}, again);
  }
  // If all that failed in a batch that was over is queued again, the jobs between have ended for good.
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
        batch_.forgive({jobs[at].low, end < jobs.size() ? jobs[end].low : jobs.back().high},
                       step.job_attempts);
      } else {
        for (std::size_t i = at; i < end; ++i) batch_.forgive(jobs[i], step.job_attempts);
      }
    }
    // Threads that wait for the mutex get it now.
    if (end < jobs.size() && steady_now() - began > kLongWithMutex) std::this_thread::sleep_for(kPause);
  }
}

void Batch::Failures::end_requeue(BatchStep step) {
  const MutexLock lock(batch_.mutex_);
  // Which status each of the jobs had is no longer known; the sum is right.
  std::uint64_t left = std::exchange(batch_.requeued_jobs_, 0);
  batch_.retried_ += left;
  for (const JobStatus status : {JobStatus::kError, JobStatus::kTimeout, JobStatus::kCrashed}) {
    std::uint64_t& ended = batch_.ended_.by_status[static_cast<std::size_t>(status)];
    const std::uint64_t taken = std::min(ended, left);
    ended -= taken;
    left -= taken;
  }
  batch_.requeued_ = nullptr;  // the caller holds the list, so it is not freed under the mutex
  batch_.superseded_ = std::exchange(batch_.next_superseded_, {});
  ++batch_.retry_rounds_;
  if (step.is_base) {
    batch_.steps_ = 0;
    step.failed = sorted(batch_.failed_);
  }
  if (batch_.superseded_.jobs != nullptr) step.superseded_jobs = *batch_.superseded_.jobs;
  batch_.charge_results();
  batch_.record(std::move(step), {});
}

}  // namespace locksley
