// The handlers `sleep` and `spin`: jobs that take as long as they are told, for trials, demonstrations and
// tests.
#pragma once

#include <string_view>

#include "core/context.h"

namespace locksley::daemon {

// Holds its worker for `payload` milliseconds (at most a day), and gives up as soon as it is asked to stop.
void sleep_job(JobContext& context, std::string_view payload);

// Uses `payload` microseconds of its thread's CPU time (at most an hour): time during which the system runs
// something else on that processor does not count. Gives up as soon as it is asked to stop.
void spin_job(JobContext& context, std::string_view payload);

}  // namespace locksley::daemon
