// The right to touch nodes and levels, as clang checks it.
#pragma once

#include "core/sync/thread_annotations.h"

namespace locksley {

// The state of nodes, and of the levels on which they compete, as a capability. A node cannot name
// the mutex that guards it: that is the mutex of the ring which it is in, and it may move to
// another ring. So nodes are guarded by kFairNodes. The user of this folder acquires it together
// with its mutex (RingLock, core/ring/state/ring_lock.h).
class LOCKSLEY_CAPABILITY("fair nodes") FairNodes {};
inline constexpr FairNodes kFairNodes;

}  // namespace locksley
