#include "core/batch/next_attempts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/index_ranges.h"

namespace locksley {
namespace {

// The memory of a range of jobs that is retried: its attempts, and its place among the ranges that
// wait (Retries::memory_bytes()).
constexpr std::uint64_t kRetryBytes = 128;

}  // namespace

void NextAttempts::restore(std::span<const JobAttempts> counts, std::span<const NotedJob> notes,
                           std::uint32_t earlier_failures) {
  earlier_failures_ = earlier_failures;
  for (const JobAttempts& jobs : counts) make_counts().set(jobs.jobs, jobs.attempts);
  for (const NotedJob& each : notes) make_notes().set(each.index, each.text);
}

AttemptCounts NextAttempts::counts_of(std::uint64_t index) const {
  return counts_ != nullptr ? counts_->of(index) : AttemptCounts{};
}

IndexRange NextAttempts::with_equal_attempts(IndexRange jobs) const {
  return counts_ != nullptr ? counts_->with_equal_attempts(jobs) : jobs;
}

std::size_t NextAttempts::room() const {
  if (!is_full()) return std::numeric_limits<std::size_t>::max();
  const std::uint64_t used = counts_ != nullptr ? counts_->memory_bytes() : 0;
  return (kSpareBytes - std::min(used, kSpareBytes)) / kRetryBytes;
}

NextAttempts::Judged NextAttempts::judge(std::span<const IndexRange> failed, std::uint32_t retries) {
  Judged judged;
  const std::size_t counted = std::min(failed.size(), room());
  for (const IndexRange& range : failed.first(counted)) {
    const auto judge = [&](IndexRange jobs, AttemptCounts attempts) {
      if (attempts.failed - attempts.forgiven >= retries) {
        append_range(judged.failed, jobs);
      } else {
        ++attempts.failed;
        judged.next.push_back({jobs, attempts});
      }
    };
    if (counts_ == nullptr) {
      judge(range, AttemptCounts{});
    } else {
      counts_->visit(range, judge);
    }
  }
  for (const IndexRange& each : failed.subspan(counted)) append_range(judged.failed, each);
  if (judged.next.empty()) return judged;
  const Nanoseconds now = steady_now();
  for (const JobAttempts& jobs : judged.next) {
    make_counts().set(jobs.jobs, jobs.attempts);
    make_counts().schedule(jobs, now);
    judged.again.push_back(jobs.jobs);
  }
  judged.again = sorted(std::move(judged.again));
  return judged;
}

void NextAttempts::forgive(IndexRange jobs, std::vector<JobAttempts>& next) {
  std::vector<JobAttempts> parts;
  make_counts().visit(jobs, [&](IndexRange part, AttemptCounts attempts) {
    // Attempts that are not known any more keep their numbers.
    if (attempts.failed == 0) attempts.failed = earlier_failures_;
    ++attempts.failed;
    parts.push_back({part, {attempts.failed, attempts.failed}});
  });
  for (const JobAttempts& each : parts) {
    counts_->set(each.jobs, each.attempts);
    if (!next.empty() && next.back().jobs.high == each.jobs.low && next.back().attempts == each.attempts) {
      next.back().jobs.high = each.jobs.high;
    } else {
      next.push_back(each);
    }
  }
}

std::vector<IndexRange> NextAttempts::take_due(Nanoseconds now, std::size_t most) {
  return counts_ != nullptr ? counts_->take_due(now, most) : std::vector<IndexRange>();
}

bool NextAttempts::set_note(std::uint64_t index, std::string_view text) {
  const bool has_room = failures_ == nullptr || !failures_->is_half_full();
  return make_notes().set(index, has_room ? text : std::string_view()) && (has_room || text.empty());
}

const std::string* NextAttempts::note(std::uint64_t index) const {
  return notes_ != nullptr ? notes_->find(index) : nullptr;
}

IndexRange NextAttempts::leasable_together(IndexRange jobs) const {
  return notes_ != nullptr ? notes_->leasable_together(jobs) : jobs;
}

void NextAttempts::jobs_ended(std::span<const IndexRange> ended, std::span<const IndexRange> failed) {
  if (counts_ == nullptr && notes_ == nullptr) return;
  if (failed.empty() || is_full()) return forget(ended);
  forget(difference(sorted({ended.begin(), ended.end()}), sorted({failed.begin(), failed.end()})));
}

void NextAttempts::forget(std::span<const IndexRange> jobs) {
  for (const IndexRange& range : jobs) {
    if (counts_ != nullptr) counts_->forget(range);
    if (notes_ != nullptr) notes_->forget(range);
  }
}

void NextAttempts::forget_counts(std::span<const IndexRange> failed) {
  if (counts_ == nullptr) return;
  for (const IndexRange& range : failed) counts_->forget(range);
}

std::uint64_t NextAttempts::memory_bytes() const {
  return (counts_ != nullptr ? counts_->memory_bytes() : 0) + (notes_ != nullptr ? notes_->bytes() : 0);
}

Retries& NextAttempts::make_counts() {
  if (counts_ == nullptr) {
    counts_ = std::make_unique<Retries>(static_cast<std::uint64_t>(steady_now().count()) ^
                                        reinterpret_cast<std::uintptr_t>(this));
    // [batch-retries] relaxed: as in Batch::Attempts::of().
    has_.counts.store(true, std::memory_order_relaxed);
  }
  return *counts_;
}

JobNotes& NextAttempts::make_notes() {
  if (notes_ == nullptr) {
    notes_ = std::make_unique<JobNotes>();
    // [batch-notes] relaxed: as in Batch::Attempts::note().
    has_.notes.store(true, std::memory_order_relaxed);
  }
  return *notes_;
}

}  // namespace locksley
