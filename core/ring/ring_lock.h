// How clang checks that what belongs to a ring is touched only under that ring's mutex.
#pragma once

#include "core/sync/mutex.h"
#include "core/sync/thread_annotations.h"

namespace locksley {

// The state of queues and groups (core/ring/ring_queue.h, core/ring/ring_group.h), as a
// capability. A queue cannot name the mutex that guards it: that is the mutex of the ring which it
// is in, and another one after Lane::hand_over(). So its members are guarded by kRingNodes, which
// only a RingLock acquires, together with a ring's mutex. clang then checks that a ring's mutex is
// held. That it is the right ring's, clang cannot check. It follows from two rules: a thread holds
// at most one ring's mutex at a time, and callers pass a queue only to the ring that it is attached
// to (a Lane passes batches to its own ring only).
class LOCKSLEY_CAPABILITY("ring nodes") RingNodes {};
inline constexpr RingNodes kRingNodes;

// Holds a ring's mutex, and with it the right to touch the queues and tenants of that ring, from
// its construction to its destruction. On the stack of one thread.
class LOCKSLEY_SCOPED_CAPABILITY RingLock {
 public:
  explicit RingLock(Mutex& mutex) LOCKSLEY_ACQUIRE(mutex, kRingNodes) : mutex_(mutex) { mutex_.lock(); }
  ~RingLock() LOCKSLEY_RELEASE() { mutex_.unlock(); }
  RingLock(const RingLock&) = delete;
  RingLock& operator=(const RingLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace locksley
