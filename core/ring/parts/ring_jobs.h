// The jobs of a ring: those that wait in its queues, those that are claimed, and their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/index_range.h"
#include "core/ring/state/depth_lists.h"
#include "core/ring/state/queued_jobs.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// Changes which jobs of a queue wait and how many are claimed, and keeps the sums of both: of the
// ring, of groups and of gates. It decides nothing: the ring determines whether a queue is ready
// after a change, and updates the order of service.
//
// A member of the ring, guarded by its mutex; each queue is attached. O(1), or as QueuedJobs says.
// Nothing blocks; allocation may fail.
class RingJobs {
 public:
  // ---- Jobs come, and leave without a turn: QueuedJobs has what each does ----

  void append(RingQueue& queue, std::uint64_t n) LOCKSLEY_REQUIRES(kFairNodes);
  void add(RingQueue& queue, IndexRange range) LOCKSLEY_REQUIRES(kFairNodes);
  void queue_again(RingQueue& queue, QueuedJobs::Prepared& prepared) LOCKSLEY_REQUIRES(kFairNodes);
  IndexRange withdraw(RingQueue& queue, std::uint64_t from) LOCKSLEY_REQUIRES(kFairNodes);
  std::vector<IndexRange> take_all(RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes);
  // The memory of a queue in which no job waits. The caller frees it without the mutex.
  static std::vector<IndexRange> take_memory(RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes);

  // ---- Turns ----

  // Claims at most `most` jobs, and returns them.
  IndexRange claim(RingQueue& queue, std::uint64_t most) LOCKSLEY_REQUIRES(kFairNodes) {
    const IndexRange taken = queue.jobs_.take(most);
    change_queued(queue, -taken.size());
    queue.claimed_ += taken.size();
    claimed_ += taken.size();
    ++claims_;
    return taken;
  }
  // Claims those jobs of `wanted` that QueuedJobs::take_common() finds, and returns them.
  std::vector<IndexRange> reclaim(RingQueue& queue, IndexRange wanted, std::size_t most)
      LOCKSLEY_REQUIRES(kFairNodes);
  // So many claimed jobs have ended, or are about to go back.
  void settle(RingQueue& queue, std::uint64_t jobs) LOCKSLEY_REQUIRES(kFairNodes) {
    queue.claimed_ -= jobs;
    claimed_ -= jobs;
  }
  // Jobs that settle() has taken out wait again.
  void give_back(RingQueue& queue, IndexRange range) LOCKSLEY_REQUIRES(kFairNodes);

  // ---- Sums ----

  // Whether the queue has jobs or executors.
  void set_active(RingQueue& queue, bool active) LOCKSLEY_REQUIRES(kFairNodes) {
    if (active != queue.is_active_) change_active(queue, active);
  }
  // Jobs that executors hold, or that are on their way to a thief that has yet to join.
  std::uint64_t claimed() const LOCKSLEY_REQUIRES(kFairNodes) { return claimed_; }
  // How often jobs were claimed.
  std::uint64_t claims() const LOCKSLEY_REQUIRES(kFairNodes) { return claims_; }
  // The number of queues with jobs or with executors.
  std::uint64_t active_queues() const LOCKSLEY_REQUIRES(kFairNodes) { return active_queues_; }
  const DepthLists& depths() const LOCKSLEY_REQUIRES(kFairNodes) { return depths_; }

 private:
  // After queue.jobs_ has got `by` jobs more: updates the sums of queued jobs. Modulo 2^64: -n for
  // n jobs less.
  void change_queued(RingQueue& queue, std::uint64_t by) LOCKSLEY_REQUIRES(kFairNodes);
  void change_active(RingQueue& queue, bool active) LOCKSLEY_REQUIRES(kFairNodes);
  static void note_memory(RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes) {
    // [queue-memory] relaxed: a sum for accounts; nothing follows from a stale value.
    queue.jobs_bytes_.store(queue.jobs_.memory_bytes(), std::memory_order_relaxed);
  }

  std::uint64_t claimed_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint64_t claims_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint64_t active_queues_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  DepthLists depths_ LOCKSLEY_GUARDED_BY(kFairNodes);
};

}  // namespace locksley
