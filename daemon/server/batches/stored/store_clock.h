// Turns the wall-clock times of the store into instants.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "daemon/base/time.h"

namespace locksley::daemon {

// Both clocks at one moment.
struct ClockReading {
  std::int64_t unix_ms;
  Instant steady;
};
ClockReading read_clocks();

// Turns the wall-clock times of the store into instants, at a start. The store keeps wall-clock
// times, because no other clock outlives the machine; but the wall clock may have jumped since they
// were written. So the constructor compares the wall clock with the newest of these times. The
// clock is doubtful if it is more than kTolerance before that time, or more than kLongAbsence after
// it: then a jump cannot be told from a long absence.
//
// If the clocks disagree, the daemon deletes and cancels later rather than earlier, and starts
// earlier rather than later:
//   - Nothing is deleted or cancelled before a second look, kSecondLook after the start.
//   - A delay is counted from the newest time of the store, if the wall clock stands before it.
//   - A stored time later than the wall clock counts as now. So after the start no batch is
//     retained longer than its option says, and no deadline is later.
//   - If the wall clock was set meanwhile, the second look computes everything again by the new
//     time.
//
// A value; constant. Any thread. Nothing blocks or fails.
class StoreClock {
 public:
  static constexpr std::chrono::milliseconds kTolerance = std::chrono::minutes(1);
  static constexpr std::chrono::milliseconds kLongAbsence = std::chrono::hours(1);
  // Guess: NTP has set the clock by then.
  static constexpr std::chrono::milliseconds kSecondLook = std::chrono::minutes(10);
  // Everything that is held back until the second look gets this much more time, for computing all
  // times again.
  static constexpr std::chrono::milliseconds kMargin = std::chrono::minutes(1);

  // `newest`: the newest time in the store, Unix milliseconds; 0: there is none.
  StoreClock(std::int64_t newest, ClockReading at);

  // How far the wall clock is ahead of the newest time of the store; 0 if the store has none.
  std::chrono::milliseconds difference() const;
  bool is_doubtful() const { return is_doubtful_; }
  Instant second_look_at() const { return at_.steady + kSecondLook; }

  // When a delay until this time ends.
  Instant start_at(std::int64_t unix_ms) const;
  // When a deadline, or a time of retention, that is `longest` long ends.
  Instant end_at(std::int64_t unix_ms, std::chrono::milliseconds longest) const;

  // At the second look: the clock to go by if the wall clock was set since the first one; none if
  // it was not.
  std::optional<StoreClock> corrected(ClockReading second) const;

 private:
  std::int64_t newest_;
  ClockReading at_;
  bool is_doubtful_;
};

}  // namespace locksley::daemon
