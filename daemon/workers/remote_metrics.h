#pragma once

#include "daemon/metrics/metric_family.h"
#include "daemon/workers/machines_view.h"

namespace locksley::daemon {

// Adds the metrics of remote workers; none, while the port for them is not open (`view` knows no lane). Any thread.
void read_remote_metrics(const MachinesView& view, Families& families);

}  // namespace locksley::daemon
