// The back-offs of batches whose job has crashed in a lease.
#pragma once

#include <map>
#include <optional>

#include "core/base/job.h"
#include "core/lane/lane.h"

namespace locksley::daemon {

// Ends the back-offs that leases have caused (Lane::end_waits()). For each lane it knows when the
// next one ends, by the link's clock and by the lane's.
//
// A member of WorkerLink; the lanes outlive it. One thread. Nothing blocks. Only allocation fails.
class LaneBackoffs {
 public:
  LaneBackoffs() = default;
  LaneBackoffs(const LaneBackoffs&) = delete;
  LaneBackoffs& operator=(const LaneBackoffs&) = delete;

  // A batch of the lane may have begun a back-off. `now`: of the link's clock.
  void note_crash(Lane& lane, Nanoseconds now) { end(lane, steady_now(), now); }
  // When the next back-off ends; none: there is none.
  std::optional<Nanoseconds> next() const;
  // Ends the back-offs that are over, and wakes their lanes.
  void advance(Nanoseconds now);

 private:
  struct Backoff {
    Nanoseconds due;
    Nanoseconds until;
  };

  // Ends the back-offs of the lane that are over at `until`, of the lane's clock.
  void end(Lane& lane, Nanoseconds until, Nanoseconds now);

  std::map<Lane*, Backoff> backoffs_;
};

}  // namespace locksley::daemon
