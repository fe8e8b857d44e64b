// The counters of a lane's connections to the upstream daemon, for the metrics.
#pragma once

#include "core/pool/worker_stats.h"
#include "daemon/base/time.h"

namespace locksley::daemon {

// All connections of one lane together. After a change of the configuration an old connection may
// still finish while the new one works, so connections add differences. These may be negative:
// modulo 2^64 the sum is right.
//
// Owned by Upstream, and lives as long as that. The upstream thread writes; any thread may read.
// Nothing blocks or fails.
struct UpstreamMeter {
  // Now:
  OwnedCounter joined;         // connections
  OwnedCounter leases;         // leases that are ready or run
  OwnedCounter kept_bytes;     // of results that the upstream has not acknowledged
  OwnedCounter round_trip_us;  // measured last; 0: not yet
  // Since the start:
  OwnedCounter reconnects;   // connections that joined after their link had joined before
  OwnedCounter jobs;         // jobs whose result the upstream has recorded
  OwnedCounter lost_leases;  // leases that the upstream has taken back
};

}  // namespace locksley::daemon
