// A rate of starts: how many jobs may start now, and when the next one may.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/base/job.h"

namespace locksley {

// The interval between starts of which at most `count` are admitted in each `period`: at least 1
// ns; 0 for a count of 0.
inline Nanoseconds start_interval(std::uint64_t count, Nanoseconds period) {
  return count == 0 ? Nanoseconds{0} : std::max(Nanoseconds{1}, period / static_cast<std::int64_t>(count));
}

// Limits how many jobs start in a given time. Starts are evenly spaced, but starts that a late
// timer has delayed may follow each other faster. This is the generic cell rate algorithm (ITU-T
// Recommendation I.371, "Traffic control and congestion control in B-ISDN"), with a tolerance of 10
// ms where the interval is shorter than that.
//
// A plain value of 24 bytes; the caller synchronises the calls. Nothing blocks or fails. `now` is
// the time of any steady clock.
class StartRate {
 public:
  static constexpr std::uint64_t kAny = ~std::uint64_t{0};

  // From one start to the next; 0: no limit. Effective at once: the next start is at most one new
  // interval away.
  void set_interval(Nanoseconds interval, Nanoseconds now) {
    constexpr Nanoseconds kTolerance = std::chrono::milliseconds(10);
    constexpr Nanoseconds kLongest = std::chrono::hours(24 * 365);
    interval_ = std::clamp(interval, Nanoseconds{0}, kLongest);
    tolerance_ = interval_ < kTolerance ? kTolerance : Nanoseconds{0};
    next_ = std::min(next_, now + interval_);
  }
  bool is_limited() const { return interval_.count() != 0; }

  // The number of jobs that may start now.
  std::uint64_t available(Nanoseconds now) const {
    if (!is_limited()) return kAny;
    const Nanoseconds next = std::max(next_, now - tolerance_);
    return now < next ? 0 : static_cast<std::uint64_t>((now - next) / interval_) + 1;
  }
  // The most that available() ever is: more than 1 only where there is a tolerance. kAny: no limit.
  std::uint64_t most() const {
    return is_limited() ? static_cast<std::uint64_t>(tolerance_ / interval_) + 1 : kAny;
  }
  // From one start to the next; 0: no limit.
  Nanoseconds interval() const { return interval_; }
  // When available() will be above 0 again.
  Nanoseconds next_at() const { return next_; }

  // `count` jobs start now.
  void take(std::uint64_t count, Nanoseconds now) {
    if (is_limited()) next_ = std::max(next_, now - tolerance_) + time_of(count);
  }
  // `count` of the jobs that were taken have not started.
  void refund(std::uint64_t count) {
    if (is_limited()) next_ -= time_of(count);
  }

 private:
  // Bounded, so that no sum overflows: take() is called for at most available() jobs, or for jobs
  // that run already.
  Nanoseconds time_of(std::uint64_t count) const {
    constexpr std::uint64_t kMostStarts = std::uint64_t{1} << 60;
    return interval_ * static_cast<std::int64_t>(
                           std::min(count, kMostStarts / static_cast<std::uint64_t>(interval_.count())));
  }

  Nanoseconds interval_{0};  // 0: no limit
  Nanoseconds tolerance_{0};
  Nanoseconds next_{0};
};

}  // namespace locksley
