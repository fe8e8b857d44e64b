// Which clients get OpenMetrics. Any thread; nothing blocks or fails.
#pragma once

#include <string_view>

namespace locksley::daemon {

inline constexpr const char* kOpenMetricsContentType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// Whether a request with this field Accept (RFC 9110, "HTTP Semantics", 12.5.1) gets this format:
// only if the client names it, with a version that we write, and does not prefer Prometheus'
// format. Malformed ranges are ignored.
bool wants_openmetrics(std::string_view accept);

}  // namespace locksley::daemon
