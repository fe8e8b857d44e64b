#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/metrics/metric_family.h"
#include "daemon/workers/machines_view.h"

namespace locksley::daemon {

// Adds the metrics of remote workers to `families`; none, while the port for them is not open.
// `queued`: how many jobs wait for each handler whose jobs only remote workers run. Any thread.
void read_remote_metrics(const MachinesView& view, const std::map<std::string, std::uint64_t>& queued,
                         Families& families);

}  // namespace locksley::daemon
