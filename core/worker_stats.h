// What a worker has done so far.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/histogram.h"

namespace locksley {

// A counter with one writer: an increment is a load and a store, no locked operation.
class OwnedCounter {
 public:
  void add(std::uint64_t n) {
    // [owned-counter] relaxed: only the owner writes; a reader gets some recent value, which is all it asks
    // for.
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

// Written by the worker alone, on cache lines of its own; read by anyone, without stopping it.
struct alignas(64) WorkerStats {
  OwnedCounter jobs;            // jobs run
  OwnedCounter tasks;           // sub-jobs run
  OwnedCounter steals;          // steals that got something
  OwnedCounter steal_attempts;  // looks at a victim
  OwnedCounter stolen;          // jobs and tasks that steals got
  OwnedCounter parks;
  OwnedCounter empty_wakes;  // unparked, and found nothing
  OwnedCounter claims;
  OwnedCounter busy_ns;
  DurationHistogram ring_wait;  // how long a queue with work waited for its claim
};

// One worker at one moment.
struct WorkerSnapshot {
  std::uint32_t worker;
  std::uint64_t queue_depth;  // jobs of its claim not started, and tasks in its deque
  std::uint64_t jobs, tasks, steals, steal_attempts, stolen, parks, empty_wakes, claims, busy_ns;
  // For how long it has been at its present turn, which busy_ns does not have yet; 0: it runs none.
  std::uint64_t turn_ns;
  DurationHistogram::Snapshot ring_wait;
};

}  // namespace locksley
