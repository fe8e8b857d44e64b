// The OpenMetrics text format, for clients that ask for it; prometheus-cpp 1.0 writes only
// Prometheus' own.
#pragma once

#include <string>
#include <string_view>

#include "daemon/metrics/metric_family.h"

namespace locksley::daemon {

inline constexpr const char* kOpenMetricsContentType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// Writes counters, gauges and histograms; the daemon has no families of other types. The format
// differs from Prometheus' in this: the family of a counter is named without `_total`, its samples
// with it; units are stated; bounds are floating-point numbers; quotes in help are escaped; and the
// end is marked, so that a truncated page is invalid.
std::string openmetrics_text(const Families& families);

// Whether a request with this field Accept (RFC 9110, "HTTP Semantics", 12.5.1) gets this format:
// only if the client names it, with a version that we write, and does not prefer Prometheus'
// format. Malformed ranges are ignored.
bool wants_openmetrics(std::string_view accept);

}  // namespace locksley::daemon
