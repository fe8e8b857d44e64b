#pragma once

#include <vector>

#include "config/config.h"
#include "config/origins.h"
#include "config/problem.h"

namespace locksley::config {

// Adjusts pairs of limits, in which one must not exceed the other. If the file sets only one limit
// of a pair, the other follows, so that `max_queued_jobs: 1000` alone is not a contradiction. A
// value in the file is never changed.
void settle_limits(Limits& limits, const Origins& origins);

// Programs of handlers without a user of their own run as the daemon's user.
void settle_users(Config& config);

// Finds values out of their bounds, and values that contradict each other. `origins` gives the
// positions of the problems, and suppresses problems that follow from a reported one; it is empty
// for a Config that was built in code. The problems name no file.
std::vector<Problem> check(const Config& config, const Origins& origins = {});

// Whether batches are stored anywhere but in memory.
bool has_store(const Store& store);

// Whether the port for remote workers is to be opened: a handler is `remote`.
bool serves_remote_workers(const Config& config);

}  // namespace locksley::config
