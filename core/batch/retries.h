// How often each job of a batch has failed, and which failed jobs wait for a retry.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/base/index_range.h"
#include "core/base/job.h"

namespace locksley {

// Failed attempts of a job, and how many of them do not count against its retries: those before a
// command that queued the job again.
struct AttemptCounts {
  std::uint32_t failed = 0;
  std::uint32_t forgiven = 0;
  friend bool operator==(const AttemptCounts&, const AttemptCounts&) = default;
};

// Jobs with the same attempts.
struct JobAttempts {
  IndexRange jobs;
  AttemptCounts attempts;
  friend bool operator==(const JobAttempts&, const JobAttempts&) = default;
};

// How long a job waits for its next attempt, after so many failures that count: a random time, at
// most 100 ms after the first failure; this bound doubles with each further failure, up to 5 min.
// `random`: 64 random bits.
//
// The limit grows exponentially, so that retries do not load a service that is down for long. The
// time is random from 0 on ("full jitter"), because that spreads the attempts of many jobs best:
// Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015. 100 ms, since most
// transient failures are due to a lock or a lost connection; 5 min, since an operator who has
// repaired something should not wait longer (both are guesses).
Nanoseconds retry_delay(std::uint32_t failures, std::uint64_t random);

// The attempts of the jobs that failed and may run again, and the jobs that wait for their next
// attempt. Both are kept as ranges, since jobs that fail together mostly have neighbouring indexes:
// about 80 bytes a range. Neighbouring jobs that failed in one publication with equal attempts wait
// for the same instant; each other range gets an instant of its own. So a million neighbours cost
// as much as a few.
//
// Owned by NextAttempts, once a job of the batch is retried; guarded by the batch's mutex. Nothing
// blocks; only allocation can fail.
class Retries {
 public:
  explicit Retries(std::uint64_t seed) : random_(seed) {}

  // The attempts that job `index` has had.
  AttemptCounts of(std::uint64_t index) const;
  // The jobs at the beginning of `jobs`, which is not empty, that have failed as often as the first
  // one.
  IndexRange with_equal_attempts(IndexRange jobs) const;
  // Calls take(range, attempts) for each part of `jobs` with the same attempts, in order.
  template <class Take>
  void visit(IndexRange jobs, Take take) const;
  void set(IndexRange jobs, AttemptCounts attempts);
  // The jobs will not run again: frees the memory of their attempts.
  void forget(IndexRange jobs);
  // The attempts of all jobs that have any, ascending.
  std::vector<JobAttempts> all() const;

  // Schedules the next attempt of the jobs: at `now` + retry_delay().
  void schedule(const JobAttempts& jobs, Nanoseconds now);
  std::uint64_t waiting() const { return waiting_jobs_; }
  // When the first waiting job is due; kNever: none waits.
  Instant next_due() const { return waiting_.empty() ? kNever : Instant(waiting_.begin()->first); }
  // Removes the jobs that are due from those that wait, at most `most` ranges, and returns them,
  // ascending.
  std::vector<IndexRange> take_due(Nanoseconds now, std::size_t most = ~std::size_t{0});

  std::uint64_t memory_bytes() const;

 private:
  struct Part {
    std::uint64_t high;
    AttemptCounts attempts;
  };
  // Removes these jobs from parts_. Returns the first part above them.
  std::map<std::uint64_t, Part>::iterator cut(IndexRange jobs);

  std::map<std::uint64_t, Part> parts_;  // disjoint; by their low ends
  std::multimap<Nanoseconds, IndexRange> waiting_;
  std::uint64_t waiting_jobs_ = 0;
  std::uint64_t random_;
};

template <class Take>
void Retries::visit(IndexRange jobs, Take take) const {
  auto part = parts_.upper_bound(jobs.low);
  if (part != parts_.begin() && std::prev(part)->second.high > jobs.low) --part;
  while (!jobs.empty()) {
    if (part == parts_.end() || part->first >= jobs.high) return take(jobs, AttemptCounts{});
    if (part->first > jobs.low) take(IndexRange{jobs.low, part->first}, AttemptCounts{});
    jobs.low = jobs.low > part->first ? jobs.low : part->first;
    const std::uint64_t high = part->second.high < jobs.high ? part->second.high : jobs.high;
    take(IndexRange{jobs.low, high}, part->second.attempts);
    jobs.low = high;
    ++part;
  }
}

}  // namespace locksley
