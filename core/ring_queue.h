// One batch's place in a ring: what is left to claim of it, and what it has cost so far.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/check.h"
#include "core/fair_level.h"
#include "core/index_range.h"
#include "core/job.h"

namespace locksley {

class FairRing;
struct RingTenant;

// The queue of one batch: a cursor over the indexes not claimed yet, the ranges handed back, and a FairNode.
// All that can be done with it is done through its ring.
//
// Owned by its batch, and outlives its membership in the ring (attach() hands the ring something that keeps
// the batch alive). Everything is guarded by the ring's mutex, but for owner(), which is constant while it is
// attached. About 250 bytes.
class RingQueue {
 public:
  RingQueue() = default;
  RingQueue(const RingQueue&) = delete;
  RingQueue& operator=(const RingQueue&) = delete;
  ~RingQueue() { check(tenant_ == nullptr, "a queue is destroyed while it is in its ring"); }

  // What attach() was told: the batch.
  void* owner() const { return owner_; }

  FairNode fair;  // for FairLevel only

 private:
  friend class FairRing;

  // Set by attach(), cleared when it leaves.
  RingTenant* tenant_ = nullptr;
  void* owner_ = nullptr;
  std::shared_ptr<void> keepalive_;
  // All queues of the tenant, ready or not.
  RingQueue* previous_ = nullptr;
  RingQueue* next_ = nullptr;
  // Queues of about the same depth, of all tenants: those in which 2^(depth_class_-1) <= queued_ <
  // 2^depth_class_.
  RingQueue* previous_as_deep_ = nullptr;
  RingQueue* next_as_deep_ = nullptr;
  std::uint8_t depth_class_ = 0;  // 0: nothing queued, and in no such list
  bool is_active_ = false;        // counted in the ring's active_queues_

  std::uint64_t cursor_ = 0;  // [cursor_, end_) was never claimed
  std::uint64_t end_ = 0;
  std::uint64_t queued_ = 0;  // jobs in [cursor_, end_) and in returned_
  // Jobs of claims, neither ended nor handed back yet, whoever has them: a thief may hold some before it is
  // counted as an executor.
  std::uint64_t claimed_ = 0;
  std::vector<IndexRange>
      returned_;  // handed back, or added as ranges; served before the cursor, last in first out

  double job_cost_ = 0;              // ns, decaying mean of what a job cost, sub-jobs included; 0: unknown
  Nanoseconds cost_without_jobs_{};  // time of turns that ended no job: belongs to the next that ends
  std::uint64_t largest_claim_ = 1;  // a claim may be so large; grows with each
  Nanoseconds waiting_since_{};      // for Claim::waited
  std::uint32_t slots_ = 0;          // executors at once; 0: no cap
  bool closed_ = false;
  bool cancelled_ = false;
  bool paused_ = false;
  bool internal_ = false;
};

}  // namespace locksley
