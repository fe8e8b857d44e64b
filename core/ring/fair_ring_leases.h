// Calls of a ring for turns that last long: for jobs that are leased to another machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/index_range.h"
#include "core/base/job.h"
#include "core/ring/fair_ring.h"
#include "core/ring/state/ring_claim.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// Turns that last long: charged as they run, given back in parts, and begun again by the machine
// that holds the jobs already. They begin with FairRing::try_claim() or reclaim(), and end with
// FairRing::settle().
//
// A handle of a ring, which outlives it. Any thread; costs and misuse as with FairRing.
class FairRing::Leases {
 public:
  // A turn that still runs has used `service` so far, by all its executors. If that is more than it
  // was charged, it is charged that, and `charged` changes accordingly. No effect with
  // Share::kJobs.
  void charge_so_far(RingQueue& queue, Charge& charged, Nanoseconds service, Nanoseconds now);
  // Gives back some jobs of a turn that goes on. In its settlement they count neither as `executed`
  // nor as `left`. `ranges`: ascending and disjoint. `unused_starts`: how many of the starts that
  // the turn took were not used; as a rule, one for each of the jobs in `ranges` that has not
  // begun. Returns the jobs that never run, because the queue was cancelled: the caller has to
  // record that. O(ranges) more than FairRing says.
  [[nodiscard]] std::vector<IndexRange> give_back(RingQueue& queue, std::span<const IndexRange> ranges,
                                                  std::uint64_t unused_starts, Nanoseconds now);
  // Begins a turn of `width` executors with those of the jobs `wanted` that wait in the queue, in
  // every state of the queue. As with join(), nothing is charged in advance. Searches only the
  // newest kMostSearched ranges that have gone back, and the jobs from View::first_unclaimed() on.
  // None: the search found no job, or another ring has the queue.
  struct Reclaimed {
    Charge charged;
    std::vector<IndexRange> ranges;  // ascending
  };
  static constexpr std::size_t kMostSearched = 1024;  // some microseconds under the mutex
  std::optional<Reclaimed> reclaim(RingQueue& queue, IndexRange wanted, std::uint32_t width, Nanoseconds now);

  // Whether jobs of other queues wait at these gates, and a remote executor may claim there. Limits
  // of their groups are not considered: these may make all of the jobs wait. O(gates where jobs
  // wait).
  bool others_wait(const RingQueue& queue, const GateSet& gates) const;

 private:
  friend class FairRing;
  explicit Leases(FairRing& ring) : ring_(ring) {}

  FairRing& ring_;
};

inline FairRing::Leases FairRing::leases() { return Leases(*this); }

}  // namespace locksley
