#include "daemon/workers/state/reclaim_holds.h"

#include <algorithm>
#include <chrono>

#include "core/lane/lane_gates.h"

namespace locksley::daemon {

void ReclaimHolds::note_absence(std::optional<Nanoseconds> first_due, Nanoseconds now) {
  // Workers wait 30 s for a reply. The first timer that has not gone off may have been due up to 5
  // s after the process stopped.
  constexpr Nanoseconds kLong = std::chrono::seconds(20);
  if (first_due && now - *first_due >= kLong) returning_until_ = now + time_;
}

void ReclaimHolds::hold(std::span<const HandlerPlace> places, Nanoseconds until) {
  for (const HandlerPlace& place : places) {
    place.lane->gates().set_hold(place.gate, true);
    Nanoseconds& end = held_[{place.lane, place.gate}];
    end = std::max(end, until);
  }
}

void ReclaimHolds::end(Nanoseconds by) {
  std::erase_if(held_, [by](const auto& held) {
    if (held.second > by) return false;
    held.first.first->gates().set_hold(held.first.second, false);
    return true;
  });
}

std::optional<Nanoseconds> ReclaimHolds::next() const {
  std::optional<Nanoseconds> next;
  for (const auto& [gate, until] : held_) next = next ? std::min(*next, until) : until;
  return next;
}

}  // namespace locksley::daemon
