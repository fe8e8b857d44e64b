// The network threads, for Prometheus.
#pragma once

#include "daemon/metrics/metric_family.h"
#include "daemon/network/network_threads.h"

namespace locksley::daemon {

// Null: the I/O thread moves all bytes itself, and there are no series. The I/O thread.
void read_network_metrics(const NetworkThreads* network, Families& families);

}  // namespace locksley::daemon
