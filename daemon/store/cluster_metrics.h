// The metrics of the daemons that share one store. Any thread; nothing blocks.
#pragma once

#include "daemon/metrics/metric_family.h"
#include "daemon/store/cluster_board.h"

namespace locksley::daemon {

void read_cluster_metrics(const ClusterBoard& cluster, Families& families);

}  // namespace locksley::daemon
