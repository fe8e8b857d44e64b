// The metrics of remote workers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "daemon/metrics/metrics_page.h"
#include "daemon/workers/machines_view.h"

namespace locksley::daemon {

// The metrics of remote workers, some handlers at a time; none, while the port for them is not
// open. `lanes`: the lanes that have series. `queued`: how many jobs wait for each handler whose
// jobs only remote workers run. Any thread.
MetricsPage::Reading read_remote_metrics(MachinesBoard::View view,
                                         const std::set<std::string, std::less<>>& lanes,
                                         std::map<std::string, std::uint64_t> queued);

}  // namespace locksley::daemon
