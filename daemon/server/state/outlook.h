// How fast a batch goes on, and when it will be over, as EXPLAIN says it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>

namespace locksley::daemon {

// Whether jobs of a batch will start without an event from outside.
enum class Progress : std::uint8_t {
  kExpected,  // they run, or wait for a turn or a time
  kUncertain,  // they wait for something that may come soon or never: that results are freed, or a database answers
  kNone,  // they wait for a command, for another batch, or for a worker
};

// The facts from which the end of an unfinished batch is estimated. Rates are in jobs per second.
struct Prospects {
  Progress progress = Progress::kExpected;
  std::optional<double> measured = std::nullopt;  // none: too few jobs have ended, or the batch stands still
  // For an estimate without measurements: how many jobs the batch's share of the lane lets run at
  // once; the average cost of a job so far (0: not known); for how long no job has ended.
  double slots = 0;
  std::chrono::duration<double> job_cost{0};
  std::chrono::duration<double> silence{0};
  std::uint64_t left = 0;  // jobs
  std::chrono::duration<double> until_start{0};
};

// How fast a batch goes, and how long it takes still.
struct Outlook {
  double jobs_per_second;
  std::int64_t eta_ms;  // -1: not known
};

// For a batch that cannot run, uses only the measured rate. Without a rate, the end is unknown: an
// estimate would only say how fast the batch could run. If jobs take longer than earlier ones, the
// estimate falls while none ends. Any thread; constant time.
inline Outlook outlook_of(const Prospects& batch) {
  double rate = batch.measured.value_or(0);
  if (!batch.measured && batch.progress == Progress::kExpected && batch.job_cost.count() > 0) {
    rate = batch.slots / std::max(batch.job_cost, batch.silence).count();
  }
  if (rate <= 0 || batch.progress == Progress::kNone) return {.jobs_per_second = rate, .eta_ms = -1};
  const double seconds = std::max(0.0, batch.until_start.count()) + static_cast<double>(batch.left) / rate;
  // Guess: beyond a year an estimate is no information.
  constexpr double kLongest = 365.0 * 86400;
  return {.jobs_per_second = rate, .eta_ms = seconds > kLongest ? -1 : std::llround(seconds * 1000)};
}

}  // namespace locksley::daemon
