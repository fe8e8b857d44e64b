#include "daemon/workers/state/lane_backoffs.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace locksley::daemon {

std::optional<Nanoseconds> LaneBackoffs::next() const {
  std::optional<Nanoseconds> next;
  for (const auto& [lane, backoff] : backoffs_) next = next ? std::min(*next, backoff.due) : backoff.due;
  return next;
}

void LaneBackoffs::advance(Nanoseconds now) {
  std::vector<std::pair<Lane*, Nanoseconds>> over;
  for (const auto& [lane, backoff] : backoffs_) {
    if (backoff.due <= now) over.emplace_back(lane, backoff.until);
  }
  for (const auto& [lane, until] : over) {
    end(*lane, until, now);
    lane->wake();
  }
}

void LaneBackoffs::end(Lane& lane, Nanoseconds until, Nanoseconds now) {
  const auto next = lane.end_waits(until);
  if (next) {
    const Nanoseconds wait = std::max(Nanoseconds{0}, *next - steady_now());
    backoffs_[&lane] = {.due = now + wait, .until = *next};
  } else {
    backoffs_.erase(&lane);
  }
}

}  // namespace locksley::daemon
