#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/atomics.h"

namespace locksley {

// Where one thread waits until another has something for it: a token, there or not.
//
// A member of its worker; outlives every thread that may still unpark it.
// park() and park_for(): one thread, the same at a time. unpark(): any thread, also before the park.
// park() and park_for() block, in the kernel and without any spinning; unpark() never blocks, and makes a
// system call only if somebody is parked.
// Nothing fails. Everything written before an unpark() is seen after the park() that took its token. Tokens
// do not add up: an unpark() while a token is there changes nothing.
class Parker {
 public:
  Parker() = default;
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  // Blocks until there is a token, and takes it. Never returns without one.
  void park();

  // The same, but no longer than `timeout`. Whether it took a token: false means that the time was over and
  // there was none.
  [[nodiscard]] bool park_for(std::chrono::nanoseconds timeout);

  // Gives the token, and wakes the parked thread if there is one.
  void unpark();

 private:
  // kParked is set and cleared by the parking thread, kToken set by any other.
  static constexpr std::uint32_t kEmpty = 0;
  static constexpr std::uint32_t kToken = 1;
  static constexpr std::uint32_t kParked = 2;

  // Written by the parking thread and those that unpark it; read by both and, as a futex, by the kernel.
  // Whoever takes kToken out sees what was written before it was put in.
  alignas(kCacheLine) std::atomic<std::uint32_t> state_{kEmpty};
};

}  // namespace locksley
