// The turns that run in a ring, and the service that their queues received recently.
#pragma once

#include <cstdint>

#include "core/base/job.h"
#include "core/fair/usage.h"
#include "core/ring/state/ring_claim.h"
#include "core/ring/state/ring_gates.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// Counts the executors of turns: at their queue, its groups, its gate, and in the ring; and the
// service that each of these received (Usage). Knows nothing of charges, which the levels keep.
//
// A member of the ring, guarded by its mutex. Borrows the gates, which open and close with their
// executors. O(1). Nothing blocks or fails.
class RunningTurns {
 public:
  explicit RunningTurns(RingGates& gates) : gates_(gates) {}
  RunningTurns(const RunningTurns&) = delete;
  RunningTurns& operator=(const RunningTurns&) = delete;

  // How many executors of `width` the queue's slots, its groups and its gate admit: at least one.
  static std::uint32_t admitted(const RingQueue& queue, const ClaimRequest& request)
      LOCKSLEY_REQUIRES(kFairNodes);
  // A turn of one local executor begins. The queue and its group count the executor already, as
  // their levels charged it.
  Charge begin(RingQueue& queue, Nanoseconds now) LOCKSLEY_REQUIRES(kFairNodes);
  // begin() has begun a turn of one local executor: makes it a turn of `width` executors at `site`.
  void begin_lease(RingQueue& queue, Charge& charged, std::uint32_t width, Site site)
      LOCKSLEY_REQUIRES(kFairNodes);
  // Makes a turn of several or remote executors one of a single local executor, which end() then
  // ends. Returns that executor's part of `received`.
  Nanoseconds end_lease(RingQueue& queue, const Charge& charged, Nanoseconds received, Nanoseconds now)
      LOCKSLEY_REQUIRES(kFairNodes);
  // A turn of one local executor, which began at `began`, ends. `seat`: the queue's. `received`:
  // the service of the turn.
  void end(RingQueue& queue, RingSeat& seat, Nanoseconds began, Nanoseconds received, Nanoseconds now)
      LOCKSLEY_REQUIRES(kFairNodes) {
    --executors_;
    gates_.change_executors(seat.gate, -1U);
    const EndedService ended(began, received, now);
    queue.fair.usage.end(ended);
    seat.group.fair.usage.end(ended);
    usage_.end(ended);
  }
  // Whether the queue has entered again since the turn began that was charged.
  static bool has_reentered(const RingQueue& queue, const Charge& charged) LOCKSLEY_REQUIRES(kFairNodes) {
    return charged.queue_epoch != epoch_of(queue);
  }

  // The executors of all turns in the ring.
  std::uint32_t executors() const LOCKSLEY_REQUIRES(kFairNodes) { return executors_; }
  // The service of the lane: Usage::recent().
  double received(Nanoseconds now) const LOCKSLEY_REQUIRES(kFairNodes) {
    return usage_.recent(executors_, now);
  }

 private:
  // The queue's present entry.
  static std::uint32_t epoch_of(const RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes) {
    return static_cast<std::uint32_t>(queue.fair.entry);
  }
  // A turn of the queue counts as this many executors more, modulo 2^32.
  void change_width(RingQueue& queue, std::uint32_t by) LOCKSLEY_REQUIRES(kFairNodes);

  RingGates& gates_;
  std::uint32_t executors_ LOCKSLEY_GUARDED_BY(kFairNodes) = 0;
  Usage usage_ LOCKSLEY_GUARDED_BY(kFairNodes);
};

}  // namespace locksley
