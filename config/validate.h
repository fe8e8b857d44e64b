#pragma once

#include <vector>

#include "config/config.h"
#include "config/origins.h"
#include "config/problem.h"

namespace locksley::config {

// Limits that contain one another: where the file sets one and not the other, the one that it does not set
// gives way, so that `max_queued_jobs: 1000` alone is not a contradiction. What the file sets stays as it is.
void settle_limits(Limits& limits, const Origins& origins);

// Programs of handlers without a user of their own run as the daemon does.
void settle_users(Config& config);

// What is impossible in a Config: values out of their bounds, and values that contradict each other.
// `origins` gives the positions of the problems and holds back those that follow from a problem already
// reported; it is empty for a Config that was built in code. The problems name no file.
std::vector<Problem> check(const Config& config, const Origins& origins = {});

}  // namespace locksley::config
