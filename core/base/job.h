// The status of a job, and the clocks: used by all code that runs, records or reports jobs. Plain
// values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace locksley {

// Durations. Inside the scheduler also instants, as nanoseconds of the steady clock since its
// epoch: the ring adds them to virtual times.
using Nanoseconds = std::chrono::nanoseconds;

// Instants that programs and handlers see. A type of their own, so that a duration in place of one,
// as in drain(5s), does not compile.
using Instant = std::chrono::steady_clock::time_point;
// Later than every other instant: nothing is due, or there is no limit.
inline constexpr Instant kNever = Instant::max();

// How a job ended.
enum class JobStatus : std::uint8_t { kOk, kError, kTimeout, kCrashed, kCancelled };
inline constexpr std::size_t kJobStatuses = 5;
// Whether the job ran and did not succeed: it counts as failed, and may run again.
constexpr bool is_failure(JobStatus status) {
  return status != JobStatus::kOk && status != JobStatus::kCancelled;
}

// `now` + `wait`; where the clock cannot count that far, its last instant, which is kNever for an
// Instant.
constexpr Nanoseconds after(Nanoseconds now, Nanoseconds wait) {
  return wait < Nanoseconds::max() - now ? now + wait : Nanoseconds::max();
}
constexpr Instant after(Instant now, std::chrono::milliseconds wait) {
  return wait < std::chrono::floor<std::chrono::milliseconds>(kNever - now) ? now + wait : kNever;
}

// The name in the protocol.
constexpr std::string_view to_string(JobStatus status) {
  constexpr std::string_view kNames[kJobStatuses] = {"ok", "error", "timeout", "crashed", "cancelled"};
  return kNames[static_cast<std::size_t>(status)];
}

// The steady clock now, as the scheduler counts it. About 40 ns.
inline Nanoseconds steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

// Unix time in milliseconds, for people and for the protocol; never for scheduling.
inline std::int64_t unix_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace locksley
