// The handlers `sleep` and `spin`: jobs of a given duration, for experiments, demonstrations and
// tests.
#pragma once

#include <chrono>
#include <string_view>

#include "core/tasks/context.h"

namespace locksley::daemon {

// The longest job of either. A longer payload is an error, so that a job without a time limit
// occupies a worker no longer. A guess: more than an experiment needs.
inline constexpr std::chrono::hours kLongestWait{1};

// Blocks its worker for `payload` milliseconds (at most kLongestWait), or until the job is asked to
// stop.
void sleep_job(JobContext& context, std::string_view payload);

// Uses `payload` microseconds of its thread's CPU time (at most kLongestWait), or until the job is
// asked to stop. Time during which the system runs another thread on the processor does not count.
void spin_job(JobContext& context, std::string_view payload);

}  // namespace locksley::daemon
