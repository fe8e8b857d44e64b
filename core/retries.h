// Which jobs of a batch failed how often, and which of them wait to be tried again.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/index_range.h"
#include "core/job.h"

namespace locksley {

// How often a job failed; of these tries, how many do not count against its retries, since it was queued
// again by hand after them.
struct Tries {
  std::uint32_t failed = 0;
  std::uint32_t forgiven = 0;
  friend bool operator==(const Tries&, const Tries&) = default;
};

// Jobs that have this in common.
struct TriedJobs {
  IndexRange jobs;
  Tries tries;
  friend bool operator==(const TriedJobs&, const TriedJobs&) = default;
};

// How long a job waits after its n-th failure that counts: a random time up to 100 ms, 200 ms, 400 ms, … 5
// min. Exponential, so that what is broken for long is not worn out by tries; random from 0 on ("full
// jitter"), because that spreads the tries of many best: M. Brooker, "Exponential Backoff And Jitter", AWS
// Architecture Blog, 2015. 100 ms, since what passes by itself is mostly a lock or a lost connection; 5 min,
// since whoever has mended something should not have to wait longer (guesses, both). `random`: 64 bits.
Nanoseconds backoff(std::uint32_t failures, std::uint64_t random);

// A sparse account: it knows of jobs that failed, and keeps ranges, since jobs that fail together mostly lie
// together. About 80 bytes a range. Jobs that failed in one publication wait for the same instant: they ran
// within half a millisecond of each other anyway, and a million failed jobs cost as much as a few.
//
// Owned by a batch of which a job has failed and is tried again; guarded by its mutex.
class Retries {
 public:
  explicit Retries(std::uint64_t seed) : random_(seed) {}

  Tries of(std::uint64_t index) const;
  // Calls take(range, tries) for the parts of `jobs` that have the same tries, in order.
  template <class Take>
  void visit(IndexRange jobs, Take take) const;
  void set(IndexRange jobs, Tries tries);

  // They are tried again some time after `now`, as long as their failures say.
  void wait(const TriedJobs& jobs, Nanoseconds now);
  std::uint64_t waiting() const { return waiting_jobs_; }
  // When the first of them is due; 0: none waits.
  Nanoseconds next_due() const { return waiting_.empty() ? Nanoseconds{0} : waiting_.begin()->first; }
  // Those that are due wait no longer.
  std::vector<IndexRange> take_due(Nanoseconds now);
  std::vector<IndexRange> take_all() { return take_due(Nanoseconds::max()); }

  std::uint64_t memory_bytes() const;

 private:
  struct Part {
    std::uint64_t high;
    Tries tries;
  };
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
    if (part == parts_.end() || part->first >= jobs.high) return take(jobs, Tries{});
    if (part->first > jobs.low) take(IndexRange{jobs.low, part->first}, Tries{});
    jobs.low = jobs.low > part->first ? jobs.low : part->first;
    const std::uint64_t high = part->second.high < jobs.high ? part->second.high : jobs.high;
    take(IndexRange{jobs.low, high}, part->second.tries);
    jobs.low = high;
    ++part;
  }
}

}  // namespace locksley
