// The OpenMetrics text format, for clients that ask for it: prometheus-cpp 1.0 writes Prometheus' own alone.
#pragma once

#include <string>
#include <string_view>

#include "daemon/http/metric_family.h"

namespace locksley::daemon {

inline constexpr const char* kOpenMetricsContentType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// Counters, gauges and histograms; a family of another type is left out, as the daemon has none. What differs
// from Prometheus' format: a counter's family is named without `_total`, its samples with it; units are said;
// bounds are floating-point numbers; quotes in help are escaped; the end is marked, so that a page that was
// cut is no page.
std::string openmetrics_text(const Families& families);

// Whether a request with this field Accept (RFC 9110, 12.5.1) is answered in that format: only if the client
// names it, in a version that is ours, and does not like Prometheus' format better. A range that cannot be
// understood counts for nothing.
bool wants_openmetrics(std::string_view accept);

}  // namespace locksley::daemon
