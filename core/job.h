// The words for a job and its end, shared by everything that runs, records or reports jobs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace locksley {

// Durations and instants of the scheduler: nanoseconds of the steady clock.
using Nanoseconds = std::chrono::nanoseconds;

// How a job ended. The names are those of the wire.
enum class JobStatus : std::uint8_t { ok, error, timeout, crashed, cancelled };
inline constexpr std::size_t kJobStatuses = 5;

constexpr std::string_view to_string(JobStatus status) {
  constexpr std::string_view kNames[kJobStatuses] = {"ok", "error", "timeout", "crashed", "cancelled"};
  return kNames[static_cast<std::size_t>(status)];
}

// The steady clock now, as the scheduler counts it. About 40 ns.
inline Nanoseconds steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

// Unix time in milliseconds, for people and for the wire; never for scheduling.
inline std::int64_t unix_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace locksley
