// A competitor on one level of a ring: the seat of a group, or a queue.
#pragma once

#include "core/fair/fair_level.h"
#include "core/ring/state/ring_lock.h"

namespace locksley {

// The common base of RingSeat and RingQueue, so that a seat has one kind of level: its members are
// either all queues, or all seats. Guarded by the ring's mutex (core/ring/state/ring_lock.h).
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
