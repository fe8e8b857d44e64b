// The pages that operators and their tools ask for.
#pragma once

#include "daemon/http/health.h"
#include "daemon/http/metrics_page.h"
#include "daemon/http/router.h"

namespace locksley::daemon {

// Adds /metrics, /healthz and /readyz. Both objects outlive the server of `router`.
void add_operator_pages(Router& router, const MetricsPage& metrics, Health& health);

}  // namespace locksley::daemon
