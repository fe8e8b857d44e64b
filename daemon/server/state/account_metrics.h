// The metrics of the accounts.
#pragma once

#include <set>
#include <string>

#include "daemon/metrics/metric_family.h"
#include "daemon/server/accounts/tenants.h"

namespace locksley::daemon {

// Gauges of the accounts: what is used and the limit of each resource, of all together and of each
// tenant. Tenants that are not `labelled` are added up as "other", without limits. The I/O thread
// only. Nothing blocks.
void read_account_metrics(const Tenants& tenants, const std::set<std::string>& labelled, Families& families);

}  // namespace locksley::daemon
