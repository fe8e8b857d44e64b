// The limits of the configuration, so that alerting rules can compare usage with them.
#pragma once

#include "config/config.h"
#include "daemon/metrics/metric_family.h"

namespace locksley::daemon {

// Adds the limits that have a metric for their usage, each named after its key; 0 means no limit.
// Any thread that may read `config`; does not block.
void read_limit_metrics(const config::Config& config, Families& families);

}  // namespace locksley::daemon
