// Waits of a ring that end with time: back-offs of queues, and rates of groups.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "core/base/job.h"
#include "core/fair/indexed_heap.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// Not checked, since IndexedHeap knows no locks: it is called by RingWaits alone, under the mutex.
inline std::uint32_t& wait_place_of(RingGroup& group) LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS {
  return group.wait_place;
}

// The queues and groups that wait, each with the instant at which its wait ends; and whether the
// owner of the executors must set its timer to an earlier instant. A member of the ring, guarded as
// queues and groups are, except for has_new(). Nothing blocks or fails; begin_backoff() allocates.
class RingWaits {
 public:
  // ---- Back-offs of queues ----

  // The back-offs of queues whose job broke an executor, or whose payloads cannot be read now. The
  // set is bounded: it holds only queues that had a turn within the last kLongestBackoff.
  //
  // A back-off lasts 100 ms after the first break, twice as long after each further one, up to 5 s.
  // A job that ends well starts the count anew; turns that were in progress when a back-off began
  // do not add to it. The values are guesses: shorter than a person waits, and longer than most
  // programs need to start.
  static constexpr Nanoseconds kFirstBackoff = std::chrono::milliseconds(100);
  static constexpr Nanoseconds kLongestBackoff = std::chrono::seconds(5);
  // Guess: 10,000 such queues take some 2% of a processor.
  static constexpr Nanoseconds kPayloadBackoff = std::chrono::milliseconds(500);

  // After a turn that began at `began`. No effect on a queue that backs off already or was
  // cancelled, and no effect if the payloads that the turn lacked may have arrived since. `latest`:
  // the greatest `now` that the ring has seen.
  void begin_backoff(RingQueue& queue, Backoff why, Nanoseconds began, Nanoseconds now, Nanoseconds latest)
      LOCKSLEY_REQUIRES(kFairNodes);
  // Without effect on a queue that does not back off. The caller then updates the queue's place.
  void end_backoff(RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes);
  // Payloads of the queue have arrived: for begin_backoff().
  static void note_arrival(RingQueue& queue, Nanoseconds now) LOCKSLEY_REQUIRES(kFairNodes);
  // A queue whose back-off has ended by `now`; null: none.
  RingQueue* ended_backoff(Nanoseconds now) const LOCKSLEY_REQUIRES(kFairNodes) {
    return backoffs_.empty() || backoffs_.begin()->first > now ? nullptr : backoffs_.begin()->second;
  }

  // ---- Rates of groups ----

  // The waits of groups that have jobs to start and must wait until their rate admits a start. The
  // group waits until `at`; none: it does not wait.
  void set_rate(RingGroup& group, std::optional<Nanoseconds> at) LOCKSLEY_REQUIRES(kFairNodes) {
    const bool waits = group.wait_place != kNotInHeap;
    if (!at) {
      if (waits) rates_.remove(group);
      return;
    }
    waits ? rates_.update(group, *at) : rates_.push(group, *at);
    note(*at);
  }
  // A group whose rate admits a start by `now`; null: none.
  RingGroup* ended_rate(Nanoseconds now) const LOCKSLEY_REQUIRES(kFairNodes) {
    return rates_.empty() || rates_.top_key() > now ? nullptr : &rates_.top();
  }

  // ---- The timer ----

  // When the next wait ends; none: nothing waits. The caller passes the result to the owner of the
  // executors; from now on, only a wait that ends earlier counts for has_new().
  std::optional<Nanoseconds> next() LOCKSLEY_REQUIRES(kFairNodes) {
    Nanoseconds next = kNone;
    if (!backoffs_.empty()) next = backoffs_.begin()->first;
    if (!rates_.empty()) next = std::min(next, rates_.top_key());
    told_ = next;
    return next == kNone ? std::nullopt : std::optional(next);
  }
  // Any thread, without the mutex: whether a wait that ends before all others has begun since
  // has_new() last returned true.
  bool has_new() { return is_new_.load() && is_new_.exchange(false); }

 private:
  static constexpr Nanoseconds kNone = Nanoseconds::max();

  void note(Nanoseconds end) LOCKSLEY_REQUIRES(kFairNodes) {
    if (end >= told_) return;
    told_ = end;
    is_new_.store(true);
  }

  std::set<std::pair<Nanoseconds, RingQueue*>> backoffs_ LOCKSLEY_GUARDED_BY(kFairNodes);
  IndexedHeap<RingGroup, Nanoseconds, &wait_place_of> rates_ LOCKSLEY_GUARDED_BY(kFairNodes);
  // The earliest end that the owner of the executors knows, or is about to receive.
  Nanoseconds told_ LOCKSLEY_GUARDED_BY(kFairNodes) = kNone;

  // Written under the mutex; cleared by the thread that is about to notify the owner of the
  // executors.
  std::atomic<bool> is_new_{false};
};

}  // namespace locksley
