#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "config/units.h"
#include "core/job.h"

namespace locksley::daemon {

// How many jobs may be started when: evenly spaced, but what a timer was late by is made up for. (The generic
// cell rate algorithm, ITU-T I.371, with a tolerance of 10 ms where jobs come closer than that.)
//
// One thread at a time. `now` is any steady clock.
class RateLimiter {
 public:
  explicit RateLimiter(std::optional<config::Rate> rate) {
    if (!rate) return;
    interval_ = std::max(Nanoseconds(rate->period) / static_cast<std::int64_t>(rate->count), Nanoseconds(1));
    if (interval_ < kTolerance) tolerance_ = kTolerance;
  }

  // So many may be started now.
  std::uint64_t available(Nanoseconds now) const {
    if (interval_.count() == 0) return ~std::uint64_t{0};
    const Nanoseconds next = std::max(next_, now - tolerance_);
    return now < next ? 0 : static_cast<std::uint64_t>((now - next) / interval_) + 1;
  }
  // When available() will not be 0 any more.
  Nanoseconds next_at() const { return next_; }

  void take(std::uint64_t count, Nanoseconds now) {
    if (interval_.count() == 0) return;
    next_ = std::max(next_, now - tolerance_) + interval_ * static_cast<std::int64_t>(count);
  }

 private:
  static constexpr Nanoseconds kTolerance = std::chrono::milliseconds(10);
  Nanoseconds interval_{0};  // 0: no limit
  Nanoseconds tolerance_{0};
  Nanoseconds next_{0};
};

}  // namespace locksley::daemon
