// Counters of one worker.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/cache_line.h"
#include "core/base/histogram.h"

namespace locksley {

// A counter with one writer: an increment is a load and a store, without a locked operation. Any
// thread may read it.
class OwnedCounter {
 public:
  void add(std::uint64_t n) {
    // [owned-counter] relaxed: only the owner writes; a recent value is enough for readers.
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(std::uint64_t n) {
    // [owned-counter] relaxed: as above.
    value_.store(n, std::memory_order_relaxed);
  }
  std::uint64_t get() const {
    // [owned-counter] relaxed: as above.
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A member of its worker, on cache lines of its own. The worker writes it; any thread may read it.
struct alignas(kCacheLine) WorkerStats {
  OwnedCounter jobs;            // jobs run
  OwnedCounter tasks;           // sub-jobs run
  OwnedCounter steals;          // steals that succeeded
  OwnedCounter steal_attempts;  // victims that were searched
  OwnedCounter stolen;          // jobs and tasks that were stolen
  OwnedCounter parks;           // times that it parked
  OwnedCounter empty_wakes;     // unparked, and found no work
  OwnedCounter claims;          // turns that it claimed
  OwnedCounter busy_ns;         // in turns that have ended
  DurationHistogram ring_wait;  // how long a queue with jobs waited for its claim
};

// One worker at about one moment. The counters count since the worker's first start and never
// decrease; WorkerStats says what each counts. Times in nanoseconds.
struct WorkerSnapshot {
  std::uint32_t worker;
  std::uint64_t queue_depth;  // jobs that thieves may take from its claim, and tasks in its deque
  std::uint64_t jobs, tasks, steals, steal_attempts, stolen, parks, empty_wakes, claims, busy_ns;
  // How long its present turn has lasted, which busy_ns does not contain yet; 0: it has no turn.
  std::uint64_t turn_ns;
  DurationHistogram::Snapshot ring_wait;
};

}  // namespace locksley
