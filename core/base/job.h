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

// `now` + `wait`; if the clock cannot count that far, its last instant, which is kNever for an
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

// The time of the steady clock, which never goes back: for waits, deadlines and durations. All code
// of core and of the daemon reads that clock here. About 40 ns. Any thread; nothing blocks.
inline Instant now() { return std::chrono::steady_clock::now(); }
// now() as the scheduler counts it: nanoseconds since the clock's epoch.
inline Nanoseconds steady_now() { return now().time_since_epoch(); }

// The time of the wall clock, which may be set back: for people and for certificates, never for
// scheduling. All code of core and of the daemon reads that clock here. Any thread; nothing blocks.
inline std::chrono::system_clock::time_point wall_now() { return std::chrono::system_clock::now(); }
// wall_now() in the unit of the protocol and of the store: Unix time in milliseconds.
inline std::int64_t unix_milliseconds() {
  return std::chrono::floor<std::chrono::milliseconds>(wall_now()).time_since_epoch().count();
}

}  // namespace locksley
