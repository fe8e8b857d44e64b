// The times in which workers may reclaim jobs, and the gates that are held for them meanwhile.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/job.h"
#include "core/lane/lane.h"
#include "daemon/workers/interface/worker_host.h"

namespace locksley::daemon {

// For a while only RECLAIM gets jobs of some handlers, whose gates are held: after a restart; after
// the process did not run for so long that workers have given up their connections; and when a
// connection closes that its worker may have given up.
//
// A member of WorkerLink; the lanes outlive it. One thread. O(gates that are held). Nothing blocks.
// Only allocation fails. The destructor ends all holds.
class ReclaimHolds {
 public:
  // `time`: how long workers may take to return, WorkerLinkOptions::reclaim. After a restart the
  // owner holds the gates of all handlers until new_life_until().
  ReclaimHolds(Nanoseconds time, bool has_recovered, Nanoseconds now)
      : time_(time), new_life_until_(has_recovered ? now + time : now) {}
  ~ReclaimHolds() { end(Nanoseconds::max()); }
  ReclaimHolds(const ReclaimHolds&) = delete;
  ReclaimHolds& operator=(const ReclaimHolds&) = delete;

  // Until then workers may reclaim the leases from before the restart, and no worker claims.
  Nanoseconds new_life_until() const { return new_life_until_; }

  // `first_due`: when the owner should have called the link. Notices whether the process was
  // stopped, or the machine suspended, for so long that workers have given up their connections.
  void note_absence(std::optional<Nanoseconds> first_due, Nanoseconds now);
  // Until when the worker of a connection that closes now may return. `is_given_up`: it may have
  // given up the connection although the process was not stopped.
  Nanoseconds returning_until(bool is_given_up, Nanoseconds now) const {
    return is_given_up ? now + time_ : returning_until_;
  }

  // Until `until` only RECLAIM gets jobs of these handlers.
  void hold(std::span<const HandlerPlace> places, Nanoseconds until);
  bool holds(const HandlerPlace& place) const { return held_.contains({place.lane, place.gate}); }
  // Ends the holds that last until `by` or earlier.
  void end(Nanoseconds by);
  // When the next hold ends; none: there is none.
  std::optional<Nanoseconds> next() const;

 private:
  const Nanoseconds time_;
  const Nanoseconds new_life_until_;
  // Until then, workers may return after their connections closed because this process was stopped.
  Nanoseconds returning_until_{};
  std::map<std::pair<Lane*, GateId>, Nanoseconds> held_;  // gates that are held, and until when
};

}  // namespace locksley::daemon
