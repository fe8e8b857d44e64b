// The atomics of which the lock-free containers are made, and the size of a cache line.
#pragma once

#include <atomic>
#include <cstddef>

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

// The unit in which processors pass memory between caches: data that two threads write is kept this
// far apart.
// std::hardware_destructive_interference_size is 64 here too, but may change with compiler flags
// and with it the layout of public types.
inline constexpr std::size_t kCacheLine = 64;

}  // namespace locksley
