// A competitor on one level of a ring: the seat of a group, or a queue.
#pragma once

#include "core/fair/fair_level.h"
#include "core/ring/state/ring_lock.h"

namespace locksley {

// A base of RingSeat and of RingQueue, so that a seat has one level whatever is below it: either
// all its members are queues, or all are seats. Guarded by the ring's mutex
// (core/ring/state/ring_lock.h).
struct RingNode {
  RingNode() = default;
  RingNode(const RingNode&) = delete;
  RingNode& operator=(const RingNode&) = delete;

  FairNode fair LOCKSLEY_GUARDED_BY(kFairNodes);

 protected:
  ~RingNode() = default;
};

using RingLevel = FairLevel<RingNode>;

}  // namespace locksley
