// Metrics of the client port: connections, commands, bytes. The events of batches are with the
// handlers (scheduler_metrics.h).
#pragma once

#include "daemon/metrics/metric_family.h"
#include "daemon/metrics/server_stats.h"

namespace locksley::daemon {

// Adds the current values of `stats`. Any thread; does not block.
void read_server_metrics(const ServerStats& stats, Families& families);

}  // namespace locksley::daemon
