// Metrics of the wire protocol's server: connections, commands, bytes, batches' events.
#pragma once

#include "daemon/http/metric_family.h"
#include "daemon/server/server_stats.h"

namespace locksley::daemon {

// Appends what `stats` says now. Any thread; does not block.
void read_server_metrics(const ServerStats& stats, Families& families);

}  // namespace locksley::daemon
