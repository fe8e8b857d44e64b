// The metrics of the accounts.
#pragma once

#include <set>
#include <string>

#include "daemon/metrics/metrics_page.h"
#include "daemon/server/accounts/tenants.h"

namespace locksley::daemon {

// Gauges of the accounts, some tenants at a time: the use and the limit of each resource, for all
// together and for each tenant. Tenants that are not `labelled` are added up as "other", without
// limits. `tenants` and `labelled` outlive the reading. The I/O thread only. Nothing blocks.
MetricsPage::Reading read_account_metrics(const Tenants& tenants, const std::set<std::string>& labelled);

}  // namespace locksley::daemon
