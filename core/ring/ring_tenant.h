// A tenant in a ring: a competitor among the tenants at each gate where it has queues, and the clock of
// its own queues.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/job.h"
#include "core/ring/due_service.h"
#include "core/ring/fair_level.h"
#include "core/ring/indexed_heap.h"
#include "core/ring/result_account.h"
#include "core/ring/ring_gate.h"
#include "core/ring/ring_lock.h"
#include "core/ring/ring_queue.h"

namespace locksley {

// Owned by the ring: made with its first queue, and kept when it has none (FairRing::Options::
// most_idle_tenants). Guarded by the ring's mutex (core/ring/ring_lock.h). Nothing blocks or fails.
struct RingTenant : FairOwner<RingSeat> {
  std::string name LOCKSLEY_GUARDED_BY(kRingNodes);
  FairClock clock LOCKSLEY_GUARDED_BY(kRingNodes);             // of its queues, at whatever gates
  RingQueue* first LOCKSLEY_GUARDED_BY(kRingNodes) = nullptr;  // all its queues, ready or not
  std::uint64_t queues LOCKSLEY_GUARDED_BY(kRingNodes) = 0;
  std::uint64_t internal_queues LOCKSLEY_GUARDED_BY(kRingNodes) = 0;  // of these
  std::uint64_t queued LOCKSLEY_GUARDED_BY(kRingNodes) = 0;           // jobs
  Nanoseconds busy LOCKSLEY_GUARDED_BY(kRingNodes){};                 // settled since it was made
  DueService due LOCKSLEY_GUARDED_BY(kRingNodes);                     // while fair.competes
  // Of its queues' results; null: not counted. As QueueOptions::results of the last queue that came.
  ResultAccount* results LOCKSLEY_GUARDED_BY(kRingNodes) = nullptr;
  // The account was full at the last claim: none of its queues is served until reopen_tenants().
  bool is_shut LOCKSLEY_GUARDED_BY(kRingNodes) = false;
  std::uint32_t idle_place LOCKSLEY_GUARDED_BY(kRingNodes) = FairNode::kNotInHeap;
};

// Not checked, since IndexedHeap knows no locks: it is called by FairRing::idle_ alone, under
// the mutex.
inline std::uint32_t& idle_place_of(RingTenant& tenant) LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS {
  return tenant.idle_place;
}

// Tenants without queues, by their keys.
using IdleTenants = IndexedHeap<RingTenant, VirtualTime, &idle_place_of>;

}  // namespace locksley
