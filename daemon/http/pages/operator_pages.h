// The pages for operators and their tools. Called before the server listens; the pages themselves
// run on the I/O thread.
#pragma once

#include "daemon/http/pages/health.h"
#include "daemon/http/router.h"
#include "daemon/http/turns.h"
#include "daemon/metrics/metrics_page.h"

namespace locksley::daemon {

// Adds /metrics, which is made in slices of its caller's line. `metrics` must outlive the server of
// `router`.
void add_metrics_page(Router& router, const MetricsPage& metrics, HttpTurns turns);

// Adds /metrics, /healthz and /readyz. `metrics` and `health` must outlive the server of `router`.
void add_operator_pages(Router& router, const MetricsPage& metrics, HttpTurns turns, Health& health);

}  // namespace locksley::daemon
