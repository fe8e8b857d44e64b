// Metrics of the process as Prometheus clients name them, and what build it is.
#pragma once

#include "daemon/http/metric_family.h"

namespace locksley::daemon {

// Appends the process_* metrics, read from /proc/self. One that cannot be read is left out. Any thread; reads
// of /proc do not wait for a disk.
void read_process_metrics(Families& families);

// Appends locksley_build_info: version and revision as labels, 1 as the value, so that it can be joined to
// others.
void read_build_info(Families& families);

}  // namespace locksley::daemon
