#include "daemon/server/batches/stored/store_clock.h"

#include <algorithm>

#include "core/base/job.h"

namespace locksley::daemon {

using std::chrono::milliseconds;

ClockReading read_clocks() { return {unix_milliseconds(), now()}; }

StoreClock::StoreClock(std::int64_t newest, ClockReading at)
    : newest_(newest),
      at_(at),
      is_doubtful_(newest != 0 && (difference() < -kTolerance || difference() > kLongAbsence)) {}

milliseconds StoreClock::difference() const { return milliseconds(newest_ == 0 ? 0 : at_.unix_ms - newest_); }

Instant StoreClock::start_at(std::int64_t unix_ms) const {
  return at_.steady + milliseconds(unix_ms - std::max(at_.unix_ms, newest_));
}

Instant StoreClock::end_at(std::int64_t unix_ms, milliseconds longest) const {
  const Instant end = at_.steady + std::min(milliseconds(unix_ms - at_.unix_ms), longest);
  return is_doubtful_ ? std::max(end, second_look_at() + kMargin) : end;
}

std::optional<StoreClock> StoreClock::corrected(ClockReading second) const {
  const auto passed = std::chrono::duration_cast<milliseconds>(second.steady - at_.steady);
  const milliseconds set_by = milliseconds(second.unix_ms - at_.unix_ms) - passed;
  if (std::chrono::abs(set_by) <= kTolerance) return std::nullopt;
  StoreClock clock(newest_, second);
  clock.is_doubtful_ = false;
  return clock;
}

}  // namespace locksley::daemon
