// Where one thread waits for its token: a futex.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/base/cache_line.h"
#include "core/base/check.h"
#include "core/base/job.h"
#include "core/sync/atomics.h"

namespace locksley {

// An atomic word on which the kernel lets threads sleep.
//
// Any thread. The waits block, wake_one() does not. Nothing fails.
class Futex : public std::atomic<std::uint32_t> {
 public:
  using std::atomic<std::uint32_t>::atomic;

  // Sleeps while the word holds `value`, until it is woken. Comparing and falling asleep are one
  // step. May return early without a reason.
  void wait_while(std::uint32_t value);
  // The same, until `deadline` at the latest. False only if that has passed.
  [[nodiscard]] bool wait_while_until(std::uint32_t value, std::chrono::steady_clock::time_point deadline);
  // Wakes one sleeping thread, if there is one.
  void wake_one();
};

// Where one thread waits until another has something for it: a token, which is there or not.
// Programs use Parker, below.
//
// A member of the object whose thread waits (a worker, the monitor); outlives every thread that may
// still unpark it.
// park() and park_for() belong to one thread at a time. unpark() may be called from any thread,
// also before the park.
// park() and park_for() block in the kernel, without any spinning. unpark() never blocks, and makes
// a system call only if a thread is parked.
// Nothing fails. All writes before an unpark() are seen after the park() that took its token.
// Tokens do not add up: an unpark() while a token is there changes nothing.
template <class Atomics>
class BasicParker {
 public:
  BasicParker() = default;
  BasicParker(const BasicParker&) = delete;
  BasicParker& operator=(const BasicParker&) = delete;

  // Blocks until there is a token, and takes it. Never returns without one.
  void park();

  // The same, but for at most `timeout`. False: the time was over, and there was no token.
  [[nodiscard]] bool park_for(std::chrono::nanoseconds timeout);

  // Gives the token, and wakes the parked thread if there is one.
  void unpark();

 private:
  // kParked is set and cleared by the parking thread, kToken set by any other.
  static constexpr std::uint32_t kEmpty = 0;
  static constexpr std::uint32_t kToken = 1;
  static constexpr std::uint32_t kParked = 2;

  static std::chrono::steady_clock::time_point deadline_after(std::chrono::nanoseconds timeout);

  // Written by the parking thread and those that unpark it; read by both and, as a futex, by the
  // kernel. A thread that takes kToken sees all writes from before the token was given.
  alignas(kCacheLine) typename Atomics::futex state_{kEmpty};
};

// A class of its own, so that it can be named where it is not yet defined.
class Parker : public BasicParker<StdAtomics> {};

template <class Atomics>
void BasicParker<Atomics>::park() {
  std::uint32_t seen = kEmpty;
  if (state_.compare_exchange_strong(seen, kParked)) {
    do {
      state_.wait_while(kParked);
      seen = state_.load();
    } while (seen == kParked);
  }
  check(seen == kToken, "two threads park at one parker");
  // Takes the token. The caller then sees all writes that came before any unpark() up to here, also
  // before one that found a token.
  state_.exchange(kEmpty);
}

template <class Atomics>
bool BasicParker<Atomics>::park_for(std::chrono::nanoseconds timeout) {
  std::uint32_t seen = kEmpty;
  if (state_.compare_exchange_strong(seen, kParked)) {
    const auto deadline = deadline_after(timeout);
    bool in_time = true;
    do {
      in_time = state_.wait_while_until(kParked, deadline);
      seen = state_.load();
    } while (seen == kParked && in_time);
  }
  check(seen != kEmpty, "two threads park at one parker");
  // A token that came just after the deadline is still taken: none is ever lost.
  return state_.exchange(kEmpty) == kToken;
}

template <class Atomics>
void BasicParker<Atomics>::unpark() {
  if (state_.exchange(kToken) == kParked) {
    state_.wake_one();
  }
}

// The instant `timeout` from now, or the clock's last instant if that would overflow.
template <class Atomics>
std::chrono::steady_clock::time_point BasicParker<Atomics>::deadline_after(std::chrono::nanoseconds timeout) {
  const Instant now = locksley::now();
  if (timeout <= timeout.zero()) {
    return now;
  }
  return timeout < kNever - now ? now + timeout : kNever;
}

extern template class BasicParker<StdAtomics>;

}  // namespace locksley
