// The atomics of which the lock-free containers are made.
#pragma once

#include <atomic>

#include "core/sync/asymmetric_barrier.h"
#include "core/sync/atomic_pair.h"
#include "core/sync/mutex.h"

namespace locksley {

class Futex;
class Parker;

// The atomics that shared structures are made of, and the primitives that they block on. They are a
// template parameter, so that tests/model can replace them by some that hand control to a scheduler
// at each access, and explore the interleavings.
struct StdAtomics {
  template <class T>
  using atomic = std::atomic<T>;
  using atomic_pair = AtomicPair;
  using barrier = AsymmetricBarrier;
  using mutex = Mutex;
  using parker = Parker;
  using futex = Futex;
};

}  // namespace locksley
