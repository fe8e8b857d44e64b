// The queue of one batch in a ring: the jobs that are left to claim, and the cost of its jobs so
// far.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/base/check.h"
#include "core/base/job.h"
#include "core/ring/state/backoff.h"
#include "core/ring/state/job_cost.h"
#include "core/ring/state/queued_jobs.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_node.h"

namespace locksley {

class FairRing;
struct RingSeat;

// The queue of one batch in a ring, which alone reads and changes it.
//
// Owned by its batch. While it is attached, the ring has a reference that keeps the batch alive.
// Any thread may call batch() while the queue is attached, and memory_bytes() at any time; all else
// is guarded by the ring's mutex (core/ring/state/ring_lock.h). Nothing blocks or fails, except
// that its destruction while it is attached ends the process. 320 bytes.
class RingQueue final : public RingNode {
 public:
  RingQueue() = default;
  ~RingQueue() { check(seat_ == nullptr, "a queue is destroyed while it is in its ring"); }

  // QueueOptions::batch: the batch whose queue it is. The ring does not know its type.
  void* batch() const { return batch_; }
  // The memory of the queue besides the object itself: ranges of jobs that have gone back.
  std::uint64_t memory_bytes() const {
    // [queue-memory] relaxed: a sum for accounts; nothing follows from a stale value.
    return jobs_bytes_.load(std::memory_order_relaxed);
  }

 private:
  friend class FairRing;
  friend class DepthLists;
  friend class GroupStandings;
  friend class RingClocks;
  friend class RingJobs;
  friend class RingWaits;
  friend class RunningTurns;
  friend class ServiceOrder;
  friend class TenantBook;
  friend class TurnCosts;

  // Whether it has as many executors as its slots allow.
  bool at_slots() const LOCKSLEY_REQUIRES(kFairNodes) { return slots_ != 0 && fair.executors >= slots_; }
  // Whether it has no jobs, gets no more, and has no running turn: then it leaves the ring.
  bool is_over() const LOCKSLEY_REQUIRES(kFairNodes) {
    return closed_ && jobs_.empty() && fair.executors == 0 && claimed_ == 0;
  }

  // Written by attach(), constant while the queue is attached: executors read it without the mutex.
  void* batch_ = nullptr;

  // The ring in which it is; null: none. Written under the mutex of that ring. So a thread that
  // holds a ring's mutex can tell whether the queue is in that ring.
  std::atomic<const FairRing*> ring_ = nullptr;
  // Set by attach(), cleared when the queue leaves.
  RingSeat* seat_ LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;
  std::shared_ptr<void> keepalive_ LOCKSLEY_GUARDED_BY(kFairNodes);
  // The list of all queues of the group, ready or not.
  RingQueue* previous_ LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;
  RingQueue* next_ LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;
  // The list of queues of about the same depth, of all tenants: DepthLists.
  RingQueue* previous_as_deep_ LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;
  RingQueue* next_as_deep_ LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;

  QueuedJobs jobs_ LOCKSLEY_GUARDED_BY(kFairNodes);
  std::atomic<std::uint64_t> jobs_bytes_ = 0;  // jobs_.memory_bytes(), written under the mutex
  // Jobs that were claimed, and have neither ended nor been given back. A thief may hold some of
  // them before it is counted as an executor.
  std::uint64_t claimed_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;

  const void* kind_ LOCKSLEY_GUARDED_BY(kFairNodes) = nullptr;   // QueueOptions::kind
  JobCost cost_ LOCKSLEY_GUARDED_BY(kFairNodes);                 // of a job
  Nanoseconds waiting_since_ LOCKSLEY_GUARDED_BY(kFairNodes){};  // for Claim::waited
  std::uint32_t slots_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;      // executors at once; 0: no cap
  // Settlements in a row whose turn broke its executor, with no job that ended well between them.
  std::uint32_t breaks_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  // No job of it is served before this instant, and it is in RingWaits; 0: no back-off.
  Nanoseconds backoff_end_ LOCKSLEY_GUARDED_BY(kFairNodes){};
  Backoff backoff_ LOCKSLEY_GUARDED_BY(kFairNodes) = Backoff::kNone;  // why
  std::uint16_t capped_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;          // Charge::kCapped, if slots_ is not 0
  // The last FairRing::payloads_arrived(), in milliseconds, modulo 2^32: only the time since then
  // counts.
  std::uint32_t payloads_arrived_ms_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  std::uint8_t depth_class_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;  // of DepthLists
  bool is_active_ LOCKSLEY_GUARDED_BY(kFairNodes) = false;        // counted in RingJobs::active_queues()
  bool in_first_turn_ LOCKSLEY_GUARDED_BY(kFairNodes) = false;    // it has executors, and its cost is unknown
  bool closed_ LOCKSLEY_GUARDED_BY(kFairNodes) = false;
  bool cancelled_ LOCKSLEY_GUARDED_BY(kFairNodes) = false;
  bool paused_ LOCKSLEY_GUARDED_BY(kFairNodes) = false;
  bool internal_ LOCKSLEY_GUARDED_BY(kFairNodes) = false;
};
static_assert(sizeof(void*) != 8 || sizeof(RingQueue) == 320);

}  // namespace locksley
