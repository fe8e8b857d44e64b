// `locksleyd --repair`: makes a sound store of what can be read of a damaged one. Main's thread, in
// a process that serves nothing.
#pragma once

#include "config/config.h"

namespace locksley::daemon {

// Returns the exit code: kExitDataError if a part of the store could not be read. Prints which
// batches are there and which are lost, or why nothing was changed. Blocks on the disk.
int repair(const config::Config& config);

}  // namespace locksley::daemon
