#include "daemon/store/rows/step_replay.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/index_ranges.h"

namespace locksley::daemon {
namespace {

// The ranges in ascending order; none if they overlap or exceed the number of jobs.
std::optional<std::vector<IndexRange>> checked(std::uint64_t jobs, std::vector<IndexRange> ranges) {
  std::ranges::sort(ranges, {}, &IndexRange::low);
  std::uint64_t at = 0;
  for (const IndexRange& range : ranges) {
    if (range.low < at || range.high < range.low || range.high > jobs) return std::nullopt;
    at = range.high;
  }
  return sorted(std::move(ranges));
}

constexpr std::uint64_t kAnyJobs = std::numeric_limits<std::uint64_t>::max();

}  // namespace

void StepReplay::Ranges::add(IndexRange range) {
  append_range(ranges_, range);
  if (ranges_.size() < merge_at_) return;
  set(sorted(std::move(ranges_)));
}

void StepReplay::Ranges::set(std::vector<IndexRange> ranges) {
  ranges_ = std::move(ranges);
  merge_at_ = std::max<std::size_t>(1024, 2 * ranges_.size());
}

bool StepReplay::apply(std::uint64_t number, StepRow step) {
  const bool is_first = steps_ == 0;
  if (!is_first && number != steps_) return false;
  steps_ = number + 1;
  for (const IndexRange& range : step.ended) ended_.add(range);
  for (const IndexRange& range : step.failed) failed_.add(range);
  if (has_attempts_ && !step.ended.empty()) {
    const auto ended = checked(kAnyJobs, step.ended);
    const auto failed = checked(kAnyJobs, step.failed);
    if (!ended || !failed) return false;
    for (const IndexRange& range : difference(*ended, *failed)) {
      attempts_.forget(range);
      notes_.forget(range);
    }
  }
  for (const JobAttempts& each : step.job_attempts) attempts_.set(each.jobs, each.attempts);
  for (const NotedJob& each : step.notes) notes_.set(each.index, each.text);
  has_attempts_ = has_attempts_ || !step.job_attempts.empty() || !step.notes.empty();
  // All failed jobs were queued again.
  if (step.superseded > last_.superseded) superseded_jobs_.clear();
  if (!step.superseded_jobs.empty()) superseded_jobs_ = step.superseded_jobs;
  const bool is_good = step.requeued.empty() || requeue(step.requeued, is_first);
  last_ = std::move(step);
  return is_good;
}

bool StepReplay::requeue(const std::vector<IndexRange>& jobs, bool is_first) {
  const auto all = checked(kAnyJobs, ended_.all());
  const auto requeued = checked(kAnyJobs, jobs);
  if (!all || !requeued) return false;
  // Jobs that failed after RETRY had begun are not among those that are queued again.
  failed_.set(difference(sorted(failed_.all()), *requeued));
  auto left = difference(*all, *requeued);
  const bool is_good = is_first || count_of(*all) == count_of(left) + count_of(*requeued);
  ended_.set(std::move(left));
  return is_good;
}

std::optional<std::vector<IndexRange>> StepReplay::ended(std::uint64_t jobs) const {
  return checked(jobs, ended_.all());
}

std::vector<IndexRange> StepReplay::failed() const { return sorted(failed_.all()); }

std::optional<BatchStep> StepReplay::merged() const {
  auto ended = checked(kAnyJobs, ended_.all());
  auto failed = checked(kAnyJobs, failed_.all());
  if (steps_ == 0 || !ended || !failed || count_of(*ended) != last_.totals.total()) return std::nullopt;
  BatchStep step;
  step.number = steps_ - 1;
  step.ended = std::move(*ended);
  step.failed = std::move(*failed);
  step.job_attempts = job_attempts();
  step.notes = notes();
  step.totals = last_.totals;
  step.row_count = last_.rows;
  step.result_bytes = last_.result_bytes;
  step.started_at = last_.started_at;
  step.finished_at = last_.finished_at;
  step.cancelled = last_.cancelled;
  step.stop_reason = last_.stop_reason;
  step.retried = last_.retried;
  step.superseded = last_.superseded;
  step.superseded_jobs = superseded_jobs_;
  step.retry_rounds = last_.retry_rounds;
  return step;
}

}  // namespace locksley::daemon
