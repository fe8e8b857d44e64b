// Metrics of the process, named as by Prometheus' client libraries, and the version of the build.
#pragma once

#include "daemon/metrics/metric_family.h"

namespace locksley::daemon {

// Adds the process_* metrics, from /proc/self. Those that cannot be read are left out. Any thread;
// reading /proc does not wait for a disk.
void read_process_metrics(Families& families);

// Adds locksley_build_info, with version and revision as labels and the value 1, for joins in
// queries.
void read_build_info(Families& families);

}  // namespace locksley::daemon
