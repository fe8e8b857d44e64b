// Points in time until which the calls of the client library may block. Any thread; nothing blocks.
#pragma once

#include <algorithm>
#include <chrono>

namespace locksley::client {

// Every call that can block takes a point in time, not a duration: all steps of a call share one
// deadline.
using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

inline constexpr Deadline kNoDeadline = Deadline::max();

inline Deadline deadline_in(std::chrono::milliseconds time) { return Clock::now() + time; }

inline Deadline earlier(Deadline a, Deadline b) { return std::min(a, b); }

}  // namespace locksley::client
