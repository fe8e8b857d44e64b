#include "core/batch/failed_jobs.h"

#include <algorithm>
#include <utility>

#include "core/base/index_ranges.h"
#include "core/base/range_sieve.h"

namespace locksley {

void FailedJobs::restore(Ranges jobs, SupersededRows superseded) {
  own_ = std::move(jobs);
  count_ = count_of(own_);
  superseded_ = std::move(superseded);
}

void FailedJobs::restore_unread(std::uint64_t count, SupersededRows superseded) {
  is_unread_ = true;
  count_ = count;
  superseded_ = std::move(superseded);
}

FailedJobs::Ranges FailedJobs::all() const {
  Ranges all(list().begin(), list().end());
  if (requeue_) all.insert(all.end(), requeue_->jobs->begin(), requeue_->jobs->end());
  return sorted(std::move(all));
}

bool FailedJobs::has(std::uint64_t index) const {
  return std::ranges::any_of(
      list(), [index](const IndexRange& range) { return index >= range.low && index < range.high; });
}

std::optional<std::uint64_t> FailedJobs::first_missing(std::span<const IndexRange> some) const {
  const RangeSieve sieve(some);
  Ranges found;
  for (const IndexRange& range : list()) {
    if (!sieve.may_overlap(range)) continue;
    for (const IndexRange& wanted : overlapping(some, range)) {
      found.push_back({std::max(wanted.low, range.low), std::min(wanted.high, range.high)});
    }
  }
  if (count_of(found) == count_of(some)) return std::nullopt;  // avoids sorting, the slowest step
  const Ranges missing = difference(some, sorted(std::move(found)));
  return missing.empty() ? std::nullopt : std::optional(missing.front().low);
}

void FailedJobs::add(std::span<const IndexRange> jobs) {
  if (shared_ != nullptr) own_ = *std::exchange(shared_, nullptr);
  for (const IndexRange& range : jobs) append_range(own_, range);
  count_ += count_of(jobs);
}

FailedJobs::SharedRanges FailedJobs::share() {
  if (shared_ == nullptr) shared_ = std::make_shared<const Ranges>(std::exchange(own_, {}));
  return shared_;
}

bool FailedJobs::set_list(SharedRanges jobs, std::uint64_t count) {
  if (!is_unread_ || count != count_) return false;
  is_unread_ = false;
  shared_ = std::move(jobs);
  return true;
}

FailedJobs::SharedRanges FailedJobs::leave_out_list() {
  is_unread_ = true;
  return std::exchange(shared_, nullptr);
}

void FailedJobs::begin_requeue(std::uint64_t row) {
  requeue_ = {.jobs = share(), .count = std::exchange(count_, 0), .are_all = true, .superseded = {}};
  requeue_->superseded.add_all(row);
  shared_ = nullptr;
}

void FailedJobs::begin_requeue(std::span<const IndexRange> some, std::uint64_t row) {
  const RangeSieve sieve(some);
  Ranges left;
  left.reserve(list().size() + some.size());
  for (const IndexRange& range : list()) {
    if (!sieve.may_overlap(range)) {
      left.push_back(range);
      continue;
    }
    for (const IndexRange& rest : difference({&range, 1}, overlapping(some, range))) left.push_back(rest);
  }
  Requeue requeue{.jobs = std::make_shared<const Ranges>(some.begin(), some.end()),
                  .count = count_of(some),
                  .are_all = false,
                  .superseded = superseded_};
  requeue.superseded.add(some, row);
  count_ -= requeue.count;
  requeue_ = std::move(requeue);
  own_ = std::move(left);
  shared_ = nullptr;
}

std::uint64_t FailedJobs::end_requeue() {
  if (!requeue_) return 0;
  superseded_ = std::move(requeue_->superseded);
  const std::uint64_t count = requeue_->count;
  requeue_.reset();
  return count;
}

std::size_t FailedJobs::memory_bytes() const {
  std::size_t ranges = own_.capacity();
  if (shared_ != nullptr) ranges += shared_->capacity();
  if (requeue_) ranges += requeue_->jobs->capacity();
  return ranges * sizeof(IndexRange) + superseded_.memory_bytes();
}

}  // namespace locksley
