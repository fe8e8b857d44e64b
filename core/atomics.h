#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

#include "core/asymmetric_barrier.h"
#include "core/atomic_pair.h"

namespace locksley {

class Futex;
class Parker;

// Where what threads share gets its atomics from, and what it blocks on: a template parameter, so that a test
// can swap in such as hand control to a scheduler at each access and explore the interleavings (tests/model).
struct StdAtomics {
  template <class T>
  using atomic = std::atomic<T>;
  using atomic_pair = AtomicPair;
  using barrier = AsymmetricBarrier;
  using mutex = std::mutex;
  using parker = Parker;
  using futex = Futex;
};

// The unit in which processors pass memory between caches: what two threads write stays this far apart.
// std::hardware_destructive_interference_size is 64 here too, but may change with compiler flags and with it
// the layout of public types.
inline constexpr std::size_t kCacheLine = 64;

}  // namespace locksley
