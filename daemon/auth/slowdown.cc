#include "daemon/auth/slowdown.h"

#include <algorithm>

namespace locksley::daemon {

void Slowdown::failed(const std::string& source, Time now) {
  while (!slowed_.empty() && now - slowed_.front().failed >= kForgotten) {
    by_name_.erase(slowed_.front().source);
    slowed_.pop_front();
  }
  const auto found = by_name_.find(source);
  if (found != by_name_.end()) {
    Slowed& slowed = *found->second;
    slowed.delay = std::min(2 * slowed.delay, longest_);
    slowed.failed = now;
    slowed_.splice(slowed_.end(), slowed_, found->second);
    return;
  }
  if (slowed_.size() >= most_) {
    by_name_.erase(slowed_.front().source);
    slowed_.pop_front();
  }
  by_name_.emplace(source, slowed_.insert(slowed_.end(), {source, kFirst, now, Time::min()}));
}

bool Slowdown::may_look_up(const std::string& source, Time now) {
  const auto found = by_name_.find(source);
  if (found == by_name_.end()) return true;
  Slowed& slowed = *found->second;
  if (now < slowed.failed + kForgotten && now < slowed.looked_up + kFirst) return false;
  slowed.looked_up = now;
  return true;
}

Slowdown::Time Slowdown::due(const std::string& source) const {
  const auto found = by_name_.find(source);
  return found == by_name_.end() ? Time::min() : found->second->failed + found->second->delay;
}

}  // namespace locksley::daemon
