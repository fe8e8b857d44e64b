#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "config/units.h"
#include "core/base/job.h"

namespace locksley::daemon {

// Limits how many jobs start in a time: evenly spaced, but a late timer's delay is made up for.
// This is the generic cell rate algorithm (ITU-T Recommendation I.371, "Traffic control and
// congestion control in B-ISDN"), with a tolerance of 10 ms where the interval is shorter than
// that.
//
// A value; one thread at a time. Nothing blocks or fails. `now` is the time of any steady clock.
class RateLimiter {
 public:
  explicit RateLimiter(std::optional<config::Rate> rate) {
    if (!rate) return;
    interval_ = std::max(Nanoseconds(rate->period) / static_cast<std::int64_t>(rate->count), Nanoseconds(1));
    if (interval_ < kTolerance) tolerance_ = kTolerance;
  }

  // The number of jobs that may start now.
  std::uint64_t available(Nanoseconds now) const {
    if (interval_.count() == 0) return ~std::uint64_t{0};
    const Nanoseconds next = std::max(next_, now - tolerance_);
    return now < next ? 0 : static_cast<std::uint64_t>((now - next) / interval_) + 1;
  }
  // The most that available() ever is, if the tolerance has it so; 0: there is no limit.
  std::uint64_t most() const {
    return interval_.count() == 0 ? 0 : static_cast<std::uint64_t>(tolerance_ / interval_) + 1;
  }
  // From one start to the next; 0: there is no limit.
  Nanoseconds interval() const { return interval_; }
  // When available() will be above 0 again.
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
