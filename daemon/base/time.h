// Core's clock by its names in the daemon. Any thread; nothing blocks.
#pragma once

#include "core/base/job.h"

namespace locksley::daemon {

// A point in time of the clock that never goes back; kNever is later than every other. Functions
// that decide by the time take an Instant, so that tests choose it.
using locksley::Instant;
using locksley::kNever;
using locksley::now;

}  // namespace locksley::daemon
