// How clang checks that the state of a ring is used only under that ring's mutex.
#pragma once

#include "core/fair/fair_nodes.h"
#include "core/sync/mutex.h"
#include "core/sync/thread_annotations.h"

namespace locksley {

// Holds a ring's mutex, and with it the right to touch the queues, groups and gates of that ring,
// from its construction to its destruction. On the stack of one thread.
//
// These objects are guarded by kFairNodes, and not by a mutex that they name, since
// Lane::hand_over() moves a queue to another ring. Only a RingLock acquires kFairNodes, together
// with a ring's mutex. So clang checks that some ring's mutex is held, but not that it is the mutex
// of the right ring. Two rules ensure that: a thread holds at most one ring's mutex at a time, and
// callers pass a queue only to the ring that it is attached to (a Lane passes batches to its own
// ring only). FairRing::Leases::reclaim() alone takes any queue, and touches only those of its own
// ring (RingQueue::ring_).
class LOCKSLEY_SCOPED_CAPABILITY RingLock {
 public:
  explicit RingLock(Mutex& mutex) LOCKSLEY_ACQUIRE(mutex, kFairNodes) : mutex_(mutex) { mutex_.lock(); }
  ~RingLock() LOCKSLEY_RELEASE() { mutex_.unlock(); }
  RingLock(const RingLock&) = delete;
  RingLock& operator=(const RingLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace locksley
